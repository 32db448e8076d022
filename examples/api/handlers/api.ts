// Bookings: their rules take more than one statement. Everything else is an SQL route in forebay.toml.
import { HttpError, json, router } from 'forebay';
import { SqlError, sql, type Transaction } from 'forebay/sql';
import { migrate } from '../src/migrate.ts';

/** A request for a booking; schemas/booking.json has been checked. */
interface BookingRequest {
  room: number;
  title: string;
  starts: string;
  ends: string;
  /** How many weeks in a row. */
  weeks?: number;
}

interface Booking {
  id: number;
  room: number;
  title: string;
  starts: string;
  ends: string;
  booked_by: string;
}

/** Bookings that a client may have from now on. */
const OPEN_MAX = 100;
/** PostgreSQL's code for a violated exclusion constraint. */
const EXCLUSION_VIOLATION = '23P01';

const { main } = sql;
const app = router();

app.onStart(() => migrate(main, new URL('../migrations/', import.meta.url)));

app.post('/bookings', async (request) => {
  const wanted = await request.json<BookingRequest>();
  try {
    const bookings = await main.tx((t) => book(t, wanted, request.user!.subject));
    return json(bookings, { status: 201 });
  } catch (error) {
    if (!(error instanceof SqlError) || error.code !== EXCLUSION_VIOLATION) throw error;
    throw new HttpError(409, 'the room is taken', { extra: { conflicts: await conflicts(wanted) } });
  }
});

/** The times of a request, one row for each week. */
const TIMES = `
  select $2::timestamptz + week * interval '7 days' as starts, $3::timestamptz + week * interval '7 days' as ends
  from generate_series(0, $4::int - 1) as week`;

const timesOf = ({ starts, ends, weeks = 1 }: BookingRequest) => [starts, ends, weeks];

async function book(t: Transaction, wanted: BookingRequest, client: string): Promise<Booking[]> {
  // One request of a client at a time, so that none counts while another one inserts.
  await t`select pg_advisory_xact_lock(hashtextextended(${client}, 0))`;
  const open = await t.value<number>('select count(*) from bookings where booked_by = $1 and ends > now()', [client]);
  if (open! + (wanted.weeks ?? 1) > OPEN_MAX) throw new HttpError(422, `a client may have ${OPEN_MAX} bookings, and has ${open}`);
  const insert = `
    insert into bookings (room, title, starts, ends, booked_by)
    select $1, $5, starts, ends, $6 from (${TIMES}) as times
    returning id, room, title, starts, ends, booked_by`;
  return t.query<Booking>(insert, [wanted.room, ...timesOf(wanted), wanted.title, client]);
}

/** What is in the way of a request. */
async function conflicts(wanted: BookingRequest): Promise<Pick<Booking, 'id' | 'starts' | 'ends'>[]> {
  const query = `
    select id, b.starts, b.ends from bookings b join (${TIMES}) as times on tstzrange(b.starts, b.ends) && tstzrange(times.starts, times.ends)
    where room = $1 order by b.starts`;
  return main.query(query, [wanted.room, ...timesOf(wanted)]);
}

app.delete('/bookings/:id', async ({ params, user }) => {
  const owner = await main.value<string>('select booked_by from bookings where id = $1', [params.id]);
  if (owner === undefined) throw new HttpError(404, `there is no booking ${params.id}`);
  if (owner !== user!.subject) throw new HttpError(403, 'only who has made a booking can cancel it');
  await main`delete from bookings where id = ${params.id}`;
});

app.get('/events', () => main.listen('bookings').events());

export default app;
