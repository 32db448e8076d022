/**
 * The object that `context.getDataService()` returns: other systems, with the names of Rengine. Methods that block there return promises
 * here, unless `compat = "rengine"`.
 */
import { filledText } from '../tools/arguments.js';
import { ClientError } from './clients.js';
import { HttpClient } from './http.js';
import { JdbcFacade } from './jdbc.js';
import { KafkaFacade } from './kafka.js';
import { MailNotifier } from './mail.js';
import { ProcessClient } from './process.js';
import { RedisFacade, RedisLockClient } from './redis.js';
import { S3Client } from './s3.js';

function unsupported(what: string, instead: string): never {
  throw new ClientError(`${what} is not supported: ${instead}`, 'unsupported');
}

/** Clients of Rengine that do not exist here: each throws an error that says what to use instead. */
export const missing = {
  ssh: (): never => unsupported('SSH', 'run an HTTP service on the other machine and call it with `fetch`'),
  tcp: (): never => unsupported('TCP', 'call an HTTP service with `fetch`'),
};

export class DataService {
  /** The PostgreSQL database of `[sql.NAME]`. */
  obtainJdbcDSFacade(name: string): JdbcFacade {
    return new JdbcFacade(filledText(name, 'name'));
  }

  getDefaultHttpClient(): HttpClient {
    return new HttpClient();
  }

  /** The Redis server of `[redis.NAME]`. */
  obtainRedisDSFacade(name: string): RedisFacade {
    return new RedisFacade(filledText(name, 'name'));
  }

  getDefaultRedisLockClient(): RedisLockClient {
    return new RedisLockClient();
  }

  getDefaultProcessClient(): ProcessClient {
    return new ProcessClient();
  }

  /** The objects of the first bucket that `allow` names. */
  getDefaultS3Client(): S3Client {
    return new S3Client();
  }

  /** The objects of the bucket of `[s3.NAME]`. */
  obtainS3Client(name: string): S3Client {
    return new S3Client(filledText(name, 'name'));
  }

  /** The Kafka cluster of `[kafka.NAME]`. */
  obtainKafkaDSFacade(name: string): KafkaFacade {
    return new KafkaFacade(filledText(name, 'name'));
  }

  obtainMongoDSFacade(_name: string): never {
    return unsupported('MongoDB', 'keep documents in `store`, which has indexes and transactions, or in columns of type jsonb in a database of `sql`');
  }

  getDefaultSSHClient(): never {
    return missing.ssh();
  }

  getDefaultTCPClient(): never {
    return missing.tcp();
  }

  /** Sends e-mail (`EMAIL`), through the first server that `allow` names or through that of `[mail.NAME]`. */
  obtainNotifier(kind: string, name: string | null = null): MailNotifier {
    if (kind === 'EMAIL') return new MailNotifier(name);
    if (kind === 'DINGTALK') return unsupported('the notifier DINGTALK', 'post the message to the webhook of the robot with `fetch`');
    throw new TypeError(`there is no notifier ${JSON.stringify(kind)}`);
  }
}
