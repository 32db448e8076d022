#!/usr/bin/env node
// Makes every package of a built binary: an archive, a Debian package, npm packages, a Python wheel, the extension for VS Code, the list of what is inside.
//
//   node deploy/packages.mjs target/dist/forebay target/packages
//
// The same input gives the same bytes: names are sorted, files belong to root, modes are 644 or 755, and all times are SOURCE_DATE_EPOCH, or else the
// time of the last commit. With --fast the packages are larger: tests make them.

import { execFileSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import { chmodSync, cpSync, existsSync, mkdirSync, mkdtempSync, readFileSync, readdirSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join, resolve } from 'node:path';
import { fileURLToPath, pathToFileURL } from 'node:url';

const ROOT = join(dirname(fileURLToPath(import.meta.url)), '..');
/** The systems for which there are packages, by what readelf says of a binary; `tools` and `run` are for those of another machine. */
const PLATFORMS = {
  'X86-64 glibc': { node: 'linux-x64', debian: 'amd64', rust: 'x86_64-unknown-linux-gnu', wheel: 'x86_64' },
  'X86-64 musl': { node: 'linux-x64-musl', rust: 'x86_64-unknown-linux-musl', wheel: 'x86_64' },
  'AArch64 glibc': { node: 'linux-arm64', debian: 'arm64', rust: 'aarch64-unknown-linux-gnu', wheel: 'aarch64', tools: 'aarch64-linux-gnu-', run: ['qemu-aarch64-static', '-L', '/usr/aarch64-linux-gnu'] },
};
const HOME = 'https://github.com/forebay/forebay';

const fail = (text) => {
  throw new Error(text);
};
const run = (program, args, options = {}) => {
  try {
    return execFileSync(program, args, { encoding: 'utf8', maxBuffer: 2 ** 28, stdio: ['ignore', 'pipe', 'inherit'], ...options });
  } catch (error) {
    throw error.code === 'ENOENT' ? new Error(`${program} is needed to make packages, and is not installed`) : error;
  }
};
const text = (file) => readFileSync(join(ROOT, file), 'utf8');
/** What README.md and the documentation lead to: the pages, the examples, and files to start from. */
const documentation = () => run('git', ['ls-files', '-z', '--', 'LICENSE', '*.md', 'docs', 'examples', 'deploy', 'protocol', ':!crates', ':!editors', ':!docs/test', ':!docs/package*', ':!examples/test', ':!deploy/test'], { cwd: ROOT }).split('\0').filter(Boolean);
const json = (value) => `${JSON.stringify(value, null, 2)}\n`;

/** The system of a binary, with the newest version of glibc that it and the addon ask for. */
const platformOf = (binary, addon) => {
  const [machine, ...others] = new Set([binary, addon].map((file) => /Machine: .*(X86-64|AArch64)$/m.exec(run('readelf', ['--file-header', file]))?.[1]));
  if (others.length > 0) fail(`${binary} and ${addon} are for different machines: make dist builds both`);
  const symbols = run('readelf', ['--wide', '--dyn-syms', binary, addon]);
  const versions = [...symbols.matchAll(/GLIBC_2\.(\d+)/g)].map(([, minor]) => Number(minor));
  const platform = PLATFORMS[`${machine} ${versions.length > 0 ? 'glibc' : 'musl'}`] ?? fail(`${binary} is for a system without packages: they are for ${Object.keys(PLATFORMS).join(', ')}`);
  const isForeign = platform.node.split('-')[1] !== process.arch;
  return { ...platform, libc: versions.length > 0 ? 'glibc' : 'musl', glibc: Math.max(17, ...versions), tools: isForeign ? platform.tools : '', run: isForeign ? platform.run : [] };
};

/** A text with one part replaced, which has to be there. */
const substitute = (whole, part, by) => (whole.includes(part) ? whole.replace(part, by) : fail(`deploy/forebay.service has no ${JSON.stringify(part)}, which a package replaces`));

/** The packages that a crate brings into what is built, with their sources: no tests, and nothing that runs only while compiling. */
const shippedCrates = (target) => {
  const { packages, resolve } = JSON.parse(run('cargo', ['metadata', '--format-version=1', '--locked', `--filter-platform=${target}`], { cwd: ROOT }));
  const byId = new Map(packages.map((found) => [found.id, found]));
  const nodes = new Map(resolve.nodes.map((node) => [node.id, node]));
  const isMacro = ({ targets }) => targets.some(({ kind }) => kind.includes('proc-macro'));
  const shipped = new Set();
  const visit = (id) => {
    if (shipped.has(id) || isMacro(byId.get(id))) return;
    shipped.add(id);
    for (const { pkg, dep_kinds: kinds } of nodes.get(id).deps) if (kinds.some(({ kind }) => kind === null)) visit(pkg);
  };
  for (const { id, name } of packages) if (['forebay', 'forebay-node-native'].includes(name)) visit(id);
  return [...shipped].map((id) => byId.get(id));
};

/** The libraries inside the SDK, each behind a comment with its name, version and licence (sdk/node/libraries.mjs). */
const bundledLibraries = () => {
  const { packages } = JSON.parse(text('sdk/node/package-lock.json'));
  const folder = 'sdk/node/dist/rules/libraries';
  return readdirSync(join(ROOT, folder)).map((file) => {
    const [, name, version, licence] = /^\/\*\n(\S+) (\S+)\n\n([^]*?)\n\*\//.exec(text(`${folder}/${file}`)) ?? fail(`${folder}/${file} does not begin with its licence`);
    return { name, version, purl: `pkg:npm/${name}@${version}`, license: packages[`node_modules/${name}`].license, licences: [licence] };
  });
};

/** The libraries that the web console is bundled with. */
const consoleLibraries = () => {
  const { packages } = JSON.parse(text('console/package-lock.json'));
  return Object.keys(packages[''].dependencies).map((name) => {
    const { version, license } = packages[`node_modules/${name}`];
    return { name, version, purl: `pkg:npm/${name}@${version}`, license, licences: [text(`console/node_modules/${name}/LICENSE`).trim()] };
  });
};

/** Everything inside the packages that others have written: name, version, licence, package URL, checksum and texts of licences. */
const components = (target) => {
  const checksums = new Map([...text('Cargo.lock').matchAll(/name = "(.+)"\nversion = "(.+)"\nsource = .+\nchecksum = "(.+)"/g)].map(([, name, version, sum]) => [`${name}@${version}`, sum]));
  const crates = shippedCrates(target).filter(({ source }) => source).map(({ name, version, license, manifest_path: manifest }) => {
    const folder = dirname(manifest);
    const files = readdirSync(folder).filter((file) => /^(licen[cs]e|copying|notice|copyright)/i.test(file) && statSync(join(folder, file)).isFile());
    return {
      name,
      version,
      purl: `pkg:cargo/${name}@${version}`,
      license: license.replace(/ *\/ */g, ' OR ').replace(/ +/g, ' '),
      checksum: checksums.get(`${name}@${version}`),
      licences: files.sort().map((file) => readFileSync(join(folder, file), 'utf8').trim()),
    };
  });
  return [...crates, ...bundledLibraries(), ...consoleLibraries()].sort((a, b) => (a.purl < b.purl ? -1 : 1));
};

/** The list of components in CycloneDX 1.5. */
const sbom = (version, time, libraries) =>
  json({
    bomFormat: 'CycloneDX',
    specVersion: '1.5',
    version: 1,
    metadata: { timestamp: time.toISOString(), component: { type: 'application', 'bom-ref': 'forebay', name: 'forebay', version, licenses: [{ license: { id: 'Apache-2.0' } }] } },
    components: libraries.map(({ name, version, purl, license, checksum }) => ({
      type: 'library',
      'bom-ref': purl,
      name,
      version,
      ...(checksum && { hashes: [{ alg: 'SHA-256', content: checksum }] }),
      licenses: [{ expression: license }],
      purl,
    })),
  });

/** Each text of a licence once, below the names of those that have it. */
const notices = (libraries) => {
  const owners = new Map();
  for (const { name, version, license, licences } of libraries) {
    for (const one of licences.length > 0 ? licences : [`${license} (the package has no text of its own)`]) owners.set(one, [...(owners.get(one) ?? []), `${name} ${version}`]);
  }
  return [...owners].map(([licence, names]) => `${names.join(', ')}\n\n${licence}\n`).join(`\n${'='.repeat(100)}\n\n`);
};

const DEBIAN_SCRIPTS = {
  postinst: `#!/bin/sh
set -e
test "$1" = configure || exit 0
getent passwd forebay >/dev/null || useradd --system --user-group --home-dir /var/lib/forebay --no-create-home --shell /usr/sbin/nologin forebay
test ! -d /run/systemd/system || systemctl daemon-reload
`,
  prerm: `#!/bin/sh
set -e
test "$1" = remove && test -d /run/systemd/system || exit 0
systemctl disable --quiet --now forebay.socket forebay.service
`,
};

/** What a .vsix has beside the extension: what is in it, and of which kind its files are. */
const VSIX = {
  'extension.vsixmanifest': ({ name, displayName, description, version, publisher, engines, categories, extensionPack }) => `<?xml version="1.0" encoding="utf-8"?>
<PackageManifest Version="2.0.0" xmlns="http://schemas.microsoft.com/developer/vsx-schema/2011">
  <Metadata>
    <Identity Language="en-US" Id="${name}" Version="${version}" Publisher="${publisher}"/>
    <DisplayName>${displayName}</DisplayName>
    <Description xml:space="preserve">${description}</Description>
    <Categories>${categories}</Categories>
    <Properties>
      <Property Id="Microsoft.VisualStudio.Code.Engine" Value="${engines.vscode}"/>
      <Property Id="Microsoft.VisualStudio.Code.ExtensionPack" Value="${extensionPack}"/>
      <Property Id="Microsoft.VisualStudio.Code.ExtensionKind" Value="workspace"/>
      <Property Id="Microsoft.VisualStudio.Services.Links.Source" Value="${HOME}"/>
    </Properties>
    <License>extension/LICENSE</License>
  </Metadata>
  <Installation><InstallationTarget Id="Microsoft.VisualStudio.Code"/></Installation>
  <Dependencies/>
  <Assets>
    <Asset Type="Microsoft.VisualStudio.Code.Manifest" Path="extension/package.json" Addressable="true"/>
    <Asset Type="Microsoft.VisualStudio.Services.Content.Details" Path="extension/README.md" Addressable="true"/>
    <Asset Type="Microsoft.VisualStudio.Services.Content.License" Path="extension/LICENSE" Addressable="true"/>
  </Assets>
</PackageManifest>
`,
  '[Content_Types].xml': () => `<?xml version="1.0" encoding="utf-8"?>
<Types xmlns="http://schemas.openxmlformats.org/package/2006/content-types">${['js', 'json', 'md', 'mjs', 'vsixmanifest'].map((ending) => `<Default Extension=".${ending}" ContentType="text/plain"/>`).join('')}<Override PartName="/extension/LICENSE" ContentType="text/plain"/></Types>
`,
};
/** Writes a folder into a zip file, whose bytes depend on nothing else. */
const ZIP = `
import pathlib, sys, zipfile
folder = pathlib.Path(sys.argv[1])
with zipfile.ZipFile(sys.argv[2], "w", zipfile.ZIP_DEFLATED) as archive:
    for path in sorted(path for path in folder.rglob("*") if path.is_file()):
        info = zipfile.ZipInfo(path.relative_to(folder).as_posix())
        info.external_attr = 0o644 << 16
        archive.writestr(info, path.read_bytes(), zipfile.ZIP_DEFLATED)
`;

/** What a server answers that was installed as a service and not yet told anything. */
const FIRST_ROUTE = `# Put your routes here, and your application into \${APP}, which is /srv/forebay. Then: systemctl reload forebay
[[route]]
path = "/"
respond = { text = "Forebay is installed. Its configuration is /etc/forebay/forebay.toml.\\n" }
`;

export const makePackages = (binary, to, { fast = false } = {}) => {
  const version = JSON.parse(text('sdk/node/package.json')).version;
  if (!existsSync(binary)) fail(`${binary} is not there: make dist builds target/dist/forebay`);
  const addon = process.env.FOREBAY_ADDON ?? join(ROOT, 'sdk/node/dist/forebay.node');
  for (const file of [join(ROOT, 'sdk/node/dist/worker.js'), join(ROOT, 'sdk/node/dist/command.js'), addon]) if (!existsSync(file)) fail(`${file} is not there: make sdk builds it`);
  const platform = platformOf(binary, addon);
  const [command, ...prefix] = [...platform.run, binary];
  const forebay = (...args) => run(command, [...prefix, ...args]);
  const binaryVersion = forebay('version').match(/\d+\.\d+\.\d+\S*/)?.[0];
  if (binaryVersion !== version) fail(`${binary} is version ${binaryVersion}, sdk/node/package.json says ${version}: build it again`);
  const epoch = process.env.SOURCE_DATE_EPOCH ?? run('git', ['log', '-1', '--format=%ct'], { cwd: ROOT }).trim();
  const env = { ...process.env, SOURCE_DATE_EPOCH: epoch, DPKG_DEB_THREADS_MAX: '1', LC_ALL: 'C', TZ: 'UTC' };

  const stage = mkdtempSync(join(tmpdir(), 'forebay-packages-'));
  const put = (file, content, mode = 0o644) => {
    mkdirSync(dirname(join(stage, file)), { recursive: true });
    writeFileSync(join(stage, file), content, { mode });
  };
  /** Modes and times that do not depend on this machine. */
  const normalize = (folder) => {
    run('chmod', ['--recursive', 'u=rwX,go=rX', join(stage, folder)]);
    run('find', [join(stage, folder), '-exec', 'touch', '--no-dereference', `--date=@${epoch}`, '{}', '+']);
  };
  const archive = (parent, folder, name) => {
    normalize(parent);
    const compressor = fast ? 'gzip -1n' : 'gzip -9n';
    run('tar', ['--create', '--sort=name', '--format=ustar', '--owner=0', '--group=0', '--numeric-owner', `--use-compress-program=${compressor}`, `--file=${join(to, name)}`, `--directory=${join(stage, parent)}`, folder], { env });
  };
  try {
    mkdirSync(to, { recursive: true });
    for (const file of readdirSync(to)) if (/^(forebay[-_]|SHA256SUMS$)/.test(file)) rmSync(join(to, file));
    run(`${platform.tools}strip`, ['-o', join(stage, 'forebay'), binary]);
    const program = readFileSync(join(stage, 'forebay'));
    chmodSync(join(stage, 'forebay'), 0o755);
    const libraries = components(platform.rust);
    const bom = sbom(version, new Date(epoch * 1000), libraries);
    const others = notices(libraries);
    const schema = text('docs/reference/forebay.schema.json');
    const licence = text('LICENSE');
    const shells = { 'forebay.bash': 'bash', _forebay: 'zsh', 'forebay.fish': 'fish' };
    const completions = Object.fromEntries(Object.entries(shells).map(([file, shell]) => [file, forebay('completions', shell)]));
    const [configuration] = text('deploy/forebay.toml').split('[workflow]');
    const example = `${configuration}${FIRST_ROUTE}`;

    const folder = `forebay-${version}-${platform.node}`;
    put(`archive/${folder}/forebay`, program, 0o755);
    const files = { 'LICENSES-OTHERS': others, 'forebay.toml': example, 'forebay.schema.json': schema, 'forebay.cdx.json': bom };
    for (const [file, content] of Object.entries(files)) put(`archive/${folder}/${file}`, content);
    for (const unit of ['forebay.service', 'forebay.socket']) put(`archive/${folder}/${unit}`, text(`deploy/${unit}`));
    for (const [file, content] of Object.entries(completions)) put(`archive/${folder}/completions/${file}`, content);
    for (const file of documentation()) put(`archive/${folder}/${file}`, readFileSync(join(ROOT, file)));
    archive('archive', folder, `${folder}.tar.gz`);
    writeFileSync(join(to, `forebay-${version}.cdx.json`), bom);

    // The Debian package: Debian's C library is glibc.
    if (platform.debian) {
      const unit = substitute(substitute(text('deploy/forebay.service'), /^#.*\n/.exec(text('deploy/forebay.service'))[0], ''), '/usr/local/bin/', '/usr/bin/');
      put('debian/usr/bin/forebay', program, 0o755);
      put('debian/usr/lib/systemd/system/forebay.service', substitute(unit, 'DynamicUser=yes', 'User=forebay'));
      put('debian/usr/lib/systemd/system/forebay.socket', text('deploy/forebay.socket'));
      put('debian/etc/forebay/forebay.toml', example);
      put('debian/usr/share/forebay/forebay.schema.json', schema);
      put('debian/usr/share/doc/forebay/copyright', `Forebay: ${HOME}\n\n${licence}\n${'='.repeat(100)}\n\nLibraries inside:\n\n${others}`);
      for (const file of documentation()) put(`debian/usr/share/doc/forebay/${file}`, readFileSync(join(ROOT, file)));
      put('debian/usr/share/bash-completion/completions/forebay', completions['forebay.bash']);
      put('debian/usr/share/zsh/vendor-completions/_forebay', completions._forebay);
      put('debian/usr/share/fish/vendor_completions.d/forebay.fish', completions['forebay.fish']);
      const size = run('du', ['--summarize', '--apparent-size', '--block-size=1K', join(stage, 'debian')]).split('\t')[0];
      put('debian/DEBIAN/md5sums', run('sh', ['-c', 'find usr -type f | LC_ALL=C sort | xargs md5sum'], { cwd: join(stage, 'debian') }));
      put('debian/DEBIAN/conffiles', '/etc/forebay/forebay.toml\n');
      for (const [file, content] of Object.entries(DEBIAN_SCRIPTS)) put(`debian/DEBIAN/${file}`, content, 0o755);
      put(
        'debian/DEBIAN/control',
        `Package: forebay
Version: ${version}
Architecture: ${platform.debian}
Maintainer: Forebay (${HOME}/issues)
Installed-Size: ${size}
Depends: libc6 (>= 2.${platform.glibc}), libgcc-s1, passwd
Suggests: nodejs (>= 22.15), python3 (>= 3.9)
Section: httpd
Priority: optional
Homepage: ${HOME}
Description: application server in one binary
 Each route is answered from memory, a folder, an embedded database, PostgreSQL,
 a script inside the server, a workflow of rules, or a pool of supervised Node,
 Bun or Python processes.
`,
      );
      normalize('debian');
      run('dpkg-deb', ['--build', '--root-owner-group', ...(fast ? ['-Zgzip', '-z1'] : ['-Zxz']), join(stage, 'debian'), join(to, `forebay_${version}_${platform.debian}.deb`)], { env });
    }

    // The npm packages: the SDK with a command, and the binary that the command looks for.
    const platformPackage = `@forebay/${platform.node}`;
    const { scripts, devDependencies, ...manifest } = JSON.parse(text('sdk/node/package.json'));
    cpSync(join(ROOT, 'sdk/node/dist'), join(stage, 'node/package/dist'), { recursive: true, filter: (path) => !path.endsWith('.node') });
    const optionalDependencies = Object.fromEntries(Object.values(PLATFORMS).map(({ node }) => [`@forebay/${node}`, version]));
    put('node/package/package.json', json({ ...manifest, optionalDependencies }));
    put('node/package/README.md', text('sdk/node/README.md'));
    put('node/package/LICENSE', licence);
    put('node/package/forebay.schema.json', schema);
    archive('node', 'package', `forebay-${version}.tgz`);
    const { license, repository } = manifest;
    const [os, cpu] = platform.node.split('-');
    put('platform/package/package.json', json({ name: platformPackage, version, description: `The binary of the Forebay application server for ${platform.node}.`, license, repository, os: [os], cpu: [cpu], libc: [platform.libc] }));
    put('platform/package/forebay', program, 0o755);
    put('platform/package/forebay.node', readFileSync(addon));
    put('platform/package/LICENSE', licence);
    put('platform/package/LICENSES-OTHERS', others);
    archive('platform', 'package', `forebay-${platform.node}-${version}.tgz`);

    // The wheel: the SDK, and the binary as a command. It is built in a copy, because setuptools would take up what it finds of earlier builds.
    cpSync(join(ROOT, 'sdk/python'), join(stage, 'wheel/sdk/python'), { recursive: true, filter: (path) => !/\/(tests|bench|build|__pycache__|[^/]+\.egg-info)$/.test(path) });
    put('wheel/sdk/node/dist/forebay.node', readFileSync(addon));
    put('wheel/sdk/python/LICENSE', licence);
    normalize('wheel');
    const system = platform.libc === 'glibc' ? `manylinux_2_${platform.glibc}` : 'musllinux_1_2';
    const build = `import os; os.umask(0o022); from setuptools import build_meta; build_meta.build_wheel(${JSON.stringify(to)}, {"--build-option": ["--plat-name=${system}_${platform.wheel}", "--compression=${fast ? 'stored' : 'deflated'}"]})`;
    const python = join(ROOT, 'sdk/python/tests/.venv/bin/python');
    run(python, ['-c', build], { cwd: join(stage, 'wheel/sdk/python'), env: { ...env, FOREBAY_BINARY: join(stage, 'forebay') }, stdio: ['ignore', 'ignore', 'pipe'] });

    // The extension for VS Code, which nothing compiles.
    const { devDependencies: _, ...extension } = { ...JSON.parse(text('editors/vscode/package.json')), version };
    for (const file of readdirSync(join(ROOT, 'editors/vscode'), { withFileTypes: true })) {
      if (!file.isDirectory() && !['jsconfig.json', 'package-lock.json'].includes(file.name)) put(`vsix/extension/${file.name}`, text(`editors/vscode/${file.name}`));
    }
    put('vsix/extension/package.json', json(extension));
    put('vsix/extension/LICENSE', licence);
    for (const [file, content] of Object.entries(VSIX)) put(`vsix/${file}`, content(extension));
    run(python, ['-c', ZIP, join(stage, 'vsix'), join(to, `forebay-vscode-${version}.vsix`)], { env });

    const packages = readdirSync(to).filter((file) => file.startsWith('forebay')).sort();
    const sums = packages.map((file) => `${createHash('sha256').update(readFileSync(join(to, file))).digest('hex')}  ${file}\n`);
    writeFileSync(join(to, 'SHA256SUMS'), sums.join(''));
    return packages;
  } finally {
    rmSync(stage, { recursive: true, force: true });
  }
};

if (import.meta.url === pathToFileURL(process.argv[1]).href) {
  const [binary = join(ROOT, 'target/dist/forebay'), to = join(ROOT, 'target/packages')] = process.argv.slice(2).filter((argument) => argument !== '--fast');
  try {
    const folder = resolve(to);
    for (const file of makePackages(resolve(binary), folder, { fast: process.argv.includes('--fast') })) console.log(`${(statSync(join(folder, file)).size / 2 ** 20).toFixed(1).padStart(6)} MB  ${file}`);
  } catch (error) {
    console.error(`packages: ${error.message}`);
    process.exitCode = 1;
  }
}
