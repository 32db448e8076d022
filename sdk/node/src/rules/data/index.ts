/**
 * Other systems, as accessed by rules through `context.getDataService()`, and functions that run concurrently with a rule. Nothing here
 * keeps state of a run.
 */
import { adapt, ClientPromise } from './client-calls.js';
import { ClientError } from './clients.js';
import { ScriptExecutor } from './executor.js';
import { HttpAnswer, HttpClient } from './http.js';
import { JdbcFacade } from './jdbc.js';
import { KafkaFacade } from './kafka.js';
import { MailNotifier } from './mail.js';
import { pools, WorkerPool } from './pools.js';
import { ProcessClient } from './process.js';
import { RedisFacade, RedisLock, RedisLockClient } from './redis.js';
import { S3Client } from './s3.js';
import { DataService, missing } from './service.js';

export { DataService, pools, ScriptExecutor };

/** Classes whose methods ask other systems. */
const clients = [HttpClient, JdbcFacade, KafkaFacade, MailNotifier, ProcessClient, RedisFacade, RedisLock, S3Client];
adapt(clients);
adapt([WorkerPool], [], false);
adapt([ScriptExecutor], ['submit']);

/** Constructors under the names of Rengine. */
export const constructors = {
  ScriptHttpClient: HttpClient,
  ScriptProcessClient: ProcessClient,
  ScriptRedisLockClient: RedisLockClient,
  ScriptS3Client: S3Client,
  ScriptSSHClient: class ScriptSSHClient {
    constructor() {
      missing.ssh();
    }
  },
  ScriptTCPClient: class ScriptTCPClient {
    constructor() {
      missing.tcp();
    }
  },
};

/** Classes that rules can obtain from these objects; frozen together with the globals. */
export const classes = [...clients, ...Object.values(constructors), ClientError, ClientPromise, DataService, HttpAnswer, ScriptExecutor, WorkerPool];
