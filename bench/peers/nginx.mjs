// nginx with two workers: a canned `return 200`, the least that a full HTTP server does, and scripts that run inside it.

import { existsSync, mkdtempSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { freePort, getWhenReady } from '../http.mjs';
import { launch } from '../processes.mjs';
import { searchPath } from './installed.mjs';

const WORKERS = 2;
/** Where Debian installs modules that come in separate packages. */
const MODULES = '/usr/lib/nginx/modules';

function configuration(folder, port, { modules, http, location }) {
  return `
daemon off;
${modules.map((module) => `load_module ${MODULES}/${module}.so;`).join('\n')}
worker_processes ${WORKERS};
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
  ${http}
  server {
    listen 127.0.0.1:${port};
    ${location}
  }
}
`;
}

/**
 * An nginx with `location` as its only location, for requests to `path`. `modules` are loaded, `http` is added to its `http` block, and
 * `files` are written next to its configuration, by name.
 */
function server({ name, path, location, modules = [], http = '', files = {}, install }) {
  return {
    name,
    /** Starts it with its files in a new folder below `folder`. */
    async start(folder) {
      const own = mkdtempSync(join(folder, 'nginx-'));
      const port = await freePort();
      const file = join(own, 'nginx.conf');
      writeFileSync(file, configuration(own, port, { modules, http, location }));
      for (const [name, text] of Object.entries(files)) writeFileSync(join(own, name), text);
      const process_ = launch('nginx', 'nginx', ['-e', 'stderr', '-p', own, '-c', file], {
        env: { PATH: searchPath },
      });
      const url = `http://127.0.0.1:${port}`;
      await getWhenReady(`${url}${path}`, process_);
      return { process: process_, url };
    },
    /** The command that installs missing modules; null if nothing is missing. */
    lacking: () => (modules.every((module) => existsSync(`${MODULES}/${module}.so`)) ? null : install),
  };
}

/** nginx, answering /local only. */
export const nginx = server({
  name: 'nginx return 200',
  path: '/local',
  location: `location = /local {
      default_type application/json;
      return 200 '{"status":"success","result":"local"}';
    }`,
});

const LUA = { modules: ['ndk_http_module', 'ngx_http_lua_module'], install: 'apt-get install libnginx-mod-http-lua lua-cjson' };

/** LuaJIT inside nginx, as in OpenResty; encodes a table as JSON. */
export const nginxLua = server({
  ...LUA,
  name: 'nginx content_by_lua, cjson',
  path: '/helloworld',
  http: `init_by_lua_block { cjson = require 'cjson' }`,
  location: `location = /helloworld {
      default_type application/json;
      content_by_lua_block { ngx.print(cjson.encode({ hello = 'world' })) }
    }`,
});

/** The same with a constant text. */
export const nginxLuaText = server({
  ...LUA,
  name: 'nginx content_by_lua, constant text',
  path: '/helloworld',
  location: `location = /helloworld {
      default_type application/json;
      content_by_lua_block { ngx.print('{"hello":"world"}') }
    }`,
});

/** njs, the JavaScript engine of nginx. */
export const nginxJs = server({
  name: 'nginx js_content (njs)',
  modules: ['ngx_http_js_module'],
  install: 'apt-get install libnginx-mod-http-js',
  path: '/helloworld',
  http: 'js_path .; js_import hello.js;',
  location: `location = /helloworld { js_content hello.answer; }`,
  files: {
    'hello.js': `
function answer(request) {
  request.headersOut['Content-Type'] = 'application/json';
  request.return(200, JSON.stringify({ hello: 'world' }));
}
export default { answer };
`,
  },
});
