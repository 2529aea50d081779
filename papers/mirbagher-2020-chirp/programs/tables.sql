-- Two tables in memory, joined by keys and by an index of text, in no order of either.
CREATE TABLE buyer (id INTEGER PRIMARY KEY, name TEXT, town INTEGER);
CREATE TABLE purchase (id INTEGER PRIMARY KEY, buyer TEXT, item INTEGER, price INTEGER);
WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 40000)
    INSERT INTO buyer SELECT i, printf('buyer %07d', i * 7919 % 40009), i % 97 FROM n;
CREATE INDEX buyer_name ON buyer (name);
WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 80000)
    INSERT INTO purchase SELECT i, printf('buyer %07d', i * 104729 % 40009), i * 31 % 1009, i % 83 FROM n;
SELECT town, count(*), sum(price) FROM purchase JOIN buyer ON buyer.name = purchase.buyer GROUP BY town ORDER BY 3;
SELECT item, count(DISTINCT buyer) FROM purchase GROUP BY item ORDER BY 2 LIMIT 5;
