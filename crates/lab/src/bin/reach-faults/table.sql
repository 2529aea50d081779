create table t(id integer primary key, name text, value real);
with recursive n(i) as (select 1 union all select i + 1 from n where i < 40000) insert into t select i, 'name ' || i, i * 0.5 from n;
create index by_name on t(name);
select count(*), sum(value) from t where name like 'name 1%';
