// nginx with two workers and a canned `return 200`, the least that a full HTTP server does.

import { mkdtempSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { freePort, getWhenReady } from '../http.mjs';
import { launch } from '../processes.mjs';
import { searchPath } from './installed.mjs';

const configuration = (folder, port, tls) => `
daemon off;
worker_processes 2;
pid ${folder}/nginx.pid;
error_log stderr warn;
events { worker_connections 16384; }
http {
  access_log off;
  keepalive_requests 1000000000;
  client_body_temp_path ${folder}/body;
  proxy_temp_path ${folder}/proxy;
  fastcgi_temp_path ${folder}/fastcgi;
  uwsgi_temp_path ${folder}/uwsgi;
  scgi_temp_path ${folder}/scgi;
  server {
    listen 127.0.0.1:${port}${tls ? ` ssl http2;
    ssl_protocols TLSv1.2 TLSv1.3;
    ssl_certificate ${tls.cert};
    ssl_certificate_key ${tls.key}` : ''};
    location = /local {
      default_type application/json;
      return 200 '{"status":"success","result":"local"}';
    }
  }
}
`;

const answering = (name, tls) => ({
  name,
  /** Starts it with its files in a new folder below `folder`. */
  async start(folder) {
    const own = mkdtempSync(join(folder, 'nginx-'));
    const port = await freePort();
    const file = join(own, 'nginx.conf');
    writeFileSync(file, configuration(own, port, tls));
    const process_ = launch('nginx', 'nginx', ['-e', 'stderr', '-p', own, '-c', file], { env: { PATH: searchPath } });
    const url = `${tls ? 'https' : 'http'}://127.0.0.1:${port}`;
    await getWhenReady(`${url}/local`, process_);
    return { process: process_, url };
  },
});

/** nginx, answering /local only. */
export const nginx = answering('nginx return 200');

/** The same over TLS with the certificate `{cert, key}`, HTTP/2 included. */
export const nginxTls = (tls) => answering('nginx, TLS', tls);
