-- In place of vortex of SPEC CPU2000, an object-oriented database in memory: objects of three classes that name each other,
-- looked up, changed and deleted by their keys.
PRAGMA page_size = 8192;
CREATE TABLE part (id INTEGER PRIMARY KEY, kind INTEGER, name TEXT, body BLOB);
CREATE TABLE link (whole INTEGER, piece INTEGER, PRIMARY KEY (whole, piece)) WITHOUT ROWID;
CREATE TABLE person (name TEXT PRIMARY KEY, owns INTEGER) WITHOUT ROWID;
BEGIN;
WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 75000)
    INSERT INTO part SELECT i, i * 7919 % 97, 'part ' || (i * 104729 % 1000003), zeroblob(200 + i * 31 % 300) FROM n;
WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 75000)
    INSERT OR IGNORE INTO link SELECT i * 7907 % 75000 + 1, i * 6101 % 75000 + 1 FROM n;
WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 30000)
    INSERT OR IGNORE INTO person SELECT 'person ' || (i * 52711 % 1000003), i * 13 % 75000 + 1 FROM n;
CREATE INDEX part_name ON part (name);
COMMIT;
SELECT count(*), sum(length(part.body)) FROM link JOIN part ON part.id = link.piece;
SELECT count(*) FROM person JOIN part ON part.id = person.owns JOIN link ON link.whole = part.id;
WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 50000)
    SELECT count(part.id) FROM n JOIN part ON part.name = 'part ' || (i * 104729 % 1000003);
UPDATE part SET kind = kind + 1, body = zeroblob(300) WHERE id % 7 = 3;
DELETE FROM part WHERE id % 11 = 5;
WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 50000)
    SELECT sum(part.kind) FROM n JOIN part ON part.id = i * 8117 % 75000;
