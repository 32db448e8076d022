/** What `context.getDataService()` gives: other systems under the names of Rengine. What waits there gives a promise here. */
import { filledText } from '../tools/arguments.js';
import { ClientError } from './clients.js';
import { HttpClient } from './http.js';
import { JdbcFacade } from './jdbc.js';
import { KafkaFacade } from './kafka.js';
import { MailNotifier } from './mail.js';
import { ProcessClient } from './process.js';
import { RedisFacade, RedisLockClient } from './redis.js';
import { S3Client } from './s3.js';

function missing(what: string, instead: string): never {
  throw new ClientError(`${what} is not there: ${instead}`, 'unsupported');
}

export class DataService {
  /** A database of PostgreSQL: the NAME of its `[sql.NAME]`. */
  obtainJdbcDSFacade(name: string): JdbcFacade {
    return new JdbcFacade(filledText(name, 'name'));
  }

  getDefaultHttpClient(): HttpClient {
    return new HttpClient();
  }

  /** A Redis: the NAME of its `[redis.NAME]`. */
  obtainRedisDSFacade(name: string): RedisFacade {
    return new RedisFacade(filledText(name, 'name'));
  }

  getDefaultRedisLockClient(): RedisLockClient {
    return new RedisLockClient();
  }

  getDefaultProcessClient(): ProcessClient {
    return new ProcessClient();
  }

  /** Objects of the first bucket that `allow` names. */
  getDefaultS3Client(): S3Client {
    return new S3Client();
  }

  /** The same for the bucket of `[s3.NAME]`. */
  obtainS3Client(name: string): S3Client {
    return new S3Client(filledText(name, 'name'));
  }

  /** A cluster of Kafka: the NAME of its `[kafka.NAME]`. */
  obtainKafkaDSFacade(name: string): KafkaFacade {
    return new KafkaFacade(filledText(name, 'name'));
  }

  obtainMongoDSFacade(_name: string): never {
    return missing('MongoDB', 'documents are kept in `store`, which has indexes and transactions, or in columns of type jsonb in a database of `sql`');
  }

  getDefaultSSHClient(): never {
    return missing('SSH', 'have an HTTP service do on the other machine what is to be done there, and ask it with `fetch`');
  }

  getDefaultTCPClient(): never {
    return missing('TCP', 'ask an HTTP service with `fetch`');
  }

  /** What sends e-mail (`EMAIL`): by the first server that `allow` names, or by that of `[mail.NAME]`. */
  obtainNotifier(kind: string, name: string | null = null): MailNotifier {
    if (kind === 'EMAIL') return new MailNotifier(name);
    if (kind === 'DINGTALK') return missing('the notifier DINGTALK', 'post the message to the webhook of the robot with `fetch`');
    throw new TypeError(`there is no notifier ${JSON.stringify(kind)}`);
  }
}
