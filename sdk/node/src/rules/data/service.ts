/**
 * The object that `context.getDataService()` returns: other systems, with the names of Rengine. Methods that block there return promises
 * here.
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

function missing(what: string, instead: string): never {
  throw new ClientError(`${what} is not there: ${instead}`, 'unsupported');
}

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
    return missing('MongoDB', 'documents are kept in `store`, which has indexes and transactions, or in columns of type jsonb in a database of `sql`');
  }

  getDefaultSSHClient(): never {
    return missing('SSH', 'have an HTTP service do on the other machine what is to be done there, and ask it with `fetch`');
  }

  getDefaultTCPClient(): never {
    return missing('TCP', 'ask an HTTP service with `fetch`');
  }

  /** Sends e-mail (`EMAIL`), through the first server that `allow` names or through that of `[mail.NAME]`. */
  obtainNotifier(kind: string, name: string | null = null): MailNotifier {
    if (kind === 'EMAIL') return new MailNotifier(name);
    if (kind === 'DINGTALK') return missing('the notifier DINGTALK', 'post the message to the webhook of the robot with `fetch`');
    throw new TypeError(`there is no notifier ${JSON.stringify(kind)}`);
  }
}
