// Locations and versions of the pinned peers.

import { spawnSync } from 'node:child_process';
import { existsSync, readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';

const folder = fileURLToPath(new URL('node_modules/', import.meta.url));

/** Debian installs nginx where only root's PATH looks. */
export const searchPath = `${process.env.PATH}:/usr/sbin`;

/** Folder with the pinned `bun` command; at the front of PATH, it also provides Forebay's Bun. */
export const commands = `${folder}.bin`;

/** The pinned Bun. */
export const bun = `${commands}/bun`;

/** Absolute path of one of the peers' server programs. */
export function program(name) {
  return fileURLToPath(new URL(`servers/${name}`, import.meta.url));
}

/** First line of a command's version output. wrk exits with status 1 after printing it. */
export function printedVersion(command, option) {
  const { stdout, stderr } = spawnSync(command, [option], { encoding: 'utf8', env: { PATH: searchPath } });
  return `${stdout}${stderr}`.split('\n', 1)[0];
}

function installedVersion(name) {
  if (lackingPackage(name)) return null;
  return JSON.parse(readFileSync(`${folder}${name}/package.json`, 'utf8')).version;
}

/** Missing peers, as sentences that say how to install them; empty if everything is installed. */
export function missing() {
  const found = [];
  const absent = ['nginx', 'wrk'].filter((name) => !searchPath.split(':').some((part) => existsSync(`${part}/${name}`)));
  if (absent.length > 0) found.push(`${absent.join(' and ')} not found: apt-get install nginx-light wrk`);
  if (lackingPackage('bun')) found.push('bun not installed: npm ci --prefix bench/peers');
  return found;
}

/** How to install an optional pinned package; null if it is installed. */
export function lackingPackage(name) {
  return existsSync(`${folder}${name}/package.json`) ? null : 'npm ci --prefix bench/peers';
}

/** Versions of the peers used by most suites, by name; null for a package that is not installed. */
export function versions() {
  return {
    node: process.versions.node,
    bun: installedVersion('bun'),
    lmdb: installedVersion('lmdb'),
    nginx: printedVersion('nginx', '-v').replace('nginx version: ', ''),
    wrk: printedVersion('wrk', '-v').replace(/ Copyright.*/, ''),
  };
}
