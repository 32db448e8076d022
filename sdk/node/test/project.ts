// Compiled in a project of its own, never run: every name of the package that a handler in TypeScript uses.
import {
  HttpError, Reply, StoreError, html, json, messages, reply, router, sleep, store, text, unsafeHtml,
  type Answer, type Context, type FetchHandler, type Handler, type Hook, type HttpRequest, type Log, type RequestHeaders, type Router, type Store, type StoreNode,
  type UploadedFile, type UploadedForm, type WorkerContext, type WorkerInfo, type WorkerState,
} from 'forebay';
import { Records, records, rest, tql, type RecordData, type Reference, type RestCall, type RestKind, type TqlAnswer } from 'forebay/records';
import { SqlError, sql, type Database, type Row, type Transaction } from 'forebay/sql';
import { StoreNode as Node, open, type Durability, type IndexDefinition, type JsonValue, type OpenOptions, type Query, type Range, type Subscript, type TransactionOptions } from 'forebay/store';
import { testing, type TestApp, type TestLogLine, type TestRequest } from 'forebay/testing';

interface User {
  name: string;
}

const byName: Handler = async (request: HttpRequest, ctx: Context): Promise<Answer> => {
  const [file]: readonly UploadedFile[] = (await request.form()).files;
  const user: User | undefined = await sql.main.row<User>('select name from users where name = $1', [request.params.name]);
  if (user === undefined) throw new HttpError(404, `no user ${request.params.name}`);
  const made: Reference = records.create({ kind: 'User', name: user.name });
  return json({ ...user, made, file: file?.name, left: ctx.remaining() });
};
const echo: FetchHandler = { fetch: async (request) => new Response(await request.text()) };
const opened: Hook = ({ log }: WorkerContext) => log.info('started');
const app: Router = router().get('/users/:name', byName).delete('/users/:name', ({ params }) => reply(store.delete('User', params.name), { status: 202 }));
app.onStart(opened);
export default app;

const tested: TestApp = testing(app);
export const answer: Response = await tested.get('/users/ada', { params: { name: 'ada' } } satisfies TestRequest);
export const node: StoreNode = (open('data', { durability: 'sync' } satisfies OpenOptions) satisfies Store).node('User');
export const values = { Records, Reply, SqlError, StoreError, Node, echo, html, messages, rest, sleep, text, tql, unsafeHtml };
export type Types = [Log, RequestHeaders, UploadedForm, WorkerInfo, WorkerState, RecordData, RestCall, RestKind, TqlAnswer, Database, Row, Transaction, Durability, IndexDefinition, JsonValue, Query, Range, Subscript, TransactionOptions, TestLogLine];
