/** The tools of rules by their global names. Tools keep no state between calls. */
import { AES } from './aes.js';
import { Assert } from './assert.js';
import { Coding } from './coding.js';
import { DateHolder } from './date-holder.js';
import { Files } from './files.js';
import { Hashing } from './hashing.js';
import { PrometheusParser } from './prometheus-parser.js';
import { RandomHolder } from './random-holder.js';
import { RengineEvent } from './rengine-event.js';
import { RSA } from './rsa.js';
import { UUID } from './uuid.js';

/** `JSON` is the engine's own. */
export const tools = { AES, Assert, Coding, DateHolder, Files, Hashing, PrometheusParser, RandomHolder, RengineEvent, RSA, UUID };
