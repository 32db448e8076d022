/**
 * Other systems, as accessed by rules through `context.getDataService()`, and functions that run concurrently with a rule. Nothing here
 * keeps state of a run.
 */
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
import { DataService } from './service.js';

export { DataService, pools, ScriptExecutor };

/** Classes that rules can obtain from these objects; frozen together with the globals. */
export const classes = [ClientError, DataService, HttpAnswer, HttpClient, JdbcFacade, KafkaFacade, MailNotifier, ProcessClient, RedisFacade, RedisLock, RedisLockClient, S3Client, ScriptExecutor, WorkerPool];
