-- The tables of the TechEmpower benchmarks, in both spellings that its programs use.
create table world (id integer primary key, randomNumber integer not null default 0);
create table "World" (id integer primary key, randomNumber integer not null default 0);
insert into world select id, 1 + floor(random() * 10000) from generate_series(1, 10000) as id;
insert into "World" select id, 1 + floor(random() * 10000) from generate_series(1, 10000) as id;

create table fortune (id integer primary key, message varchar(2048) not null);
create table "Fortune" (id integer primary key, message varchar(2048) not null);
insert into fortune values
  (1, 'fortune: No such file or directory'),
  (2, 'A computer scientist is someone who fixes things that aren''t broken.'),
  (3, 'After enough decimal places, nobody gives a damn.'),
  (4, 'A bad random number generator: 1, 1, 1, 1, 1, 4.33e+67, 1, 1, 1'),
  (5, 'A computer program does what you tell it to do, not what you want it to do.'),
  (6, 'Emacs is a nice operating system, but I prefer UNIX. — Tom Christaensen'),
  (7, 'Any program that runs right is obsolete.'),
  (8, 'A list is only as strong as its weakest link. — Donald Knuth'),
  (9, 'Feature: A bug with seniority.'),
  (10, 'Computers make very fast, very accurate mistakes.'),
  (11, '<script>alert("This should not be displayed in a browser alert box.");</script>'),
  (12, 'フレームワークのベンチマーク');
insert into "Fortune" select * from fortune;

grant all on world, "World", fortune, "Fortune" to benchmarkdbuser;

-- Who logs in otherwise than by SCRAM; pg_hba.conf says how.
set password_encryption = 'md5';
create role md5user login password 'password' in role benchmarkdbuser;
reset password_encryption;
create role clearuser login password 'password' in role benchmarkdbuser;
create role trustuser login in role benchmarkdbuser;
