PRAGMA cache_size = -65536;
CREATE TABLE item (id INTEGER PRIMARY KEY, other INTEGER, text TEXT);
WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 120000)
INSERT INTO item SELECT i, i * 7919 % 120000, printf('text %08d', i * 31 % 99991) FROM n;
CREATE INDEX by_text ON item (text);
SELECT count(*), sum(a.id) FROM item a JOIN item b ON b.id = a.other WHERE a.id % 3 = 0;
SELECT count(DISTINCT text) FROM item;
