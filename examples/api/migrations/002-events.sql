create function announce_booking() returns trigger language plpgsql as $$
begin
  perform pg_notify('bookings', json_build_object('change', lower(tg_op), 'booking', coalesce(new, old))::text);
  return null;
end
$$;

create trigger bookings_announced after insert or delete on bookings for each row execute function announce_booking();
