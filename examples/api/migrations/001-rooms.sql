create table rooms (
  number integer primary key check (number > 0),
  name text not null check (length(name) between 1 and 100),
  seats integer not null check (seats between 1 and 1000)
);

create table bookings (
  id bigint generated always as identity primary key,
  room integer not null references rooms,
  title text not null check (length(title) between 1 and 200),
  starts timestamptz not null,
  ends timestamptz not null,
  booked_by text not null,
  check (starts < ends),
  -- A room has one booking at a time. A range of one number is how such a constraint compares integers without an extension.
  constraint room_is_taken exclude using gist (int4range(room, room, '[]') with &&, tstzrange(starts, ends) with &&)
);

create index bookings_by_room on bookings (room, starts, id);

create index bookings_by_client on bookings (booked_by, ends);
