import { Files } from '../tools/files.js';
import { filledText, isNothing } from '../tools/arguments.js';
import { ask } from './clients.js';
import { decodeUtf8, send, type ReceivedResponse } from './http.js';

/** Longest object. `fetch_time_max` and `fetch_bytes_max` of `[workflow]` apply as well. */
const OBJECT_BYTES_MAX = 10 * 1024 * 1024;
const TIME_MS = 15 * 60_000;

/** Metadata of an object. */
export interface ObjectFacts {
  readonly object: string;
  readonly etag: string | null;
  /** Size in bytes. */
  readonly size: number;
  /** Seconds since 1970; null if the server does not say. */
  readonly lastModified: number | null;
  /** Header values by name in lower case. */
  readonly headers: Record<string, string>;
}

/** Objects in the first bucket that `allow` names (`[s3.NAME]`), or in another. Files are accessed as by `Files`. */
export class S3Client {
  readonly #source: string | null;

  constructor(source: string | null = null) {
    this.#source = isNothing(source) ? null : filledText(source, 'source');
  }

  /** Stores a file as an object. */
  async uploadObject(object: string, uploadFile: string): Promise<{ object: string; etag: string | null }> {
    const bytes = Files.readToByteArray(filledText(uploadFile, 'uploadFile'));
    const { headers } = await this.#send('PUT', object, bytes);
    return { object, etag: etagOf(headers) };
  }

  /** Downloads an object to a file. */
  async downloadObject(object: string, downloadFile: string): Promise<void> {
    filledText(downloadFile, 'downloadFile');
    const { bytes } = await this.#send('GET', object);
    Files.writeFromByteArray(downloadFile, bytes);
  }

  /** Removes an object if it exists. */
  async removeObject(object: string): Promise<void> {
    await this.#send('DELETE', object);
  }

  /** The content of an object as UTF-8 text. */
  async getObjectAsString(object: string): Promise<string> {
    return decodeUtf8((await this.#send('GET', object)).bytes);
  }

  async statObject(object: string): Promise<ObjectFacts> {
    const { headers } = await this.#send('HEAD', object);
    const modified = Date.parse(headers['last-modified'] ?? '') / 1000;
    return { object, etag: etagOf(headers), size: Number(headers['content-length'] ?? 0), lastModified: Number.isNaN(modified) ? null : modified, headers };
  }

  async #send(method: string, object: string, body: Uint8Array | null = null): Promise<ReceivedResponse> {
    const url = await ask<string>({ op: 's3', source: this.#source, method, object: filledText(object, 'object') });
    return send({ url, what: `S3, which was asked to ${method} \`${object}\`,`, method, body, headers: null, timeMs: TIME_MS, bytesMax: OBJECT_BYTES_MAX, failsOnStatus: true });
  }
}

function etagOf(headers: Record<string, string>): string | null {
  return headers['etag']?.replaceAll('"', '') ?? null;
}
