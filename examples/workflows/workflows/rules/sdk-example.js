// What rules have at hand, each part with the values that it gives in the log. The attribute `without` of the graph names parts that are left out, and may name the log.
const TEXT = '1234567890abcdef';
const PLAIN = 'abcdefghijklmnopqrstuvwxyz';

function process(context) {
  const attributes = context.getAttributes();
  const without = attributes.without ?? [];
  const log = without.includes('log') ? () => {} : (name, value) => console.info(`${name}: ${value}`);
  log('context', context);
  log('id', context.getId());
  log('type', context.getType());
  log('attributes', JSON.stringify(attributes));
  log('attributes["objId"]', attributes['objId']);
  const result = new ScriptResult(true);
  for (const [name, example] of Object.entries(EXAMPLES)) {
    if (without.includes(name)) continue;
    try {
      result.addValue(`${name}Result`, example(log));
    } catch (error) {
      console.error(`${name}: ${error}`);
      throw error;
    }
  }
  return result;
}

const EXAMPLES = {
  dateHolder(log) {
    log('currentMillis', DateHolder.currentMillis());
    log('currentNanoTime', DateHolder.currentNanoTime());
    const date = DateHolder.getDate();
    log('getDate', date);
    log('formatDate', DateHolder.formatDate(date, 'yyyy-MM-dd'));
    log('getDateOf', DateHolder.getDateOf(5, 10, 'yyyy-MM-dd'));
    return date;
  },

  coding(log) {
    const base64 = Coding.toBase64(TEXT);
    log('toBase64', base64);
    log('fromBase64', Coding.fromBase64(base64));
    const base58 = Coding.toBase58(TEXT);
    log('toBase58', base58);
    log('fromBase58', Coding.fromBase58(base58));
    const hex = Coding.toHex(TEXT);
    log('toHex', hex);
    log('fromHex', Coding.fromHex(hex));
    return base58;
  },

  hashing(log) {
    for (const name of ['md5', 'sha1', 'sha256', 'sha384', 'sha512']) log(name, Hashing[name](TEXT));
    log('hmacSha1', Hashing.hmacSha1('abc', TEXT));
    log('hmacSha256', Hashing.hmacSha256('abc', TEXT));
    const hmacSha512 = Hashing.hmacSha512('abc', TEXT);
    log('hmacSha512', hmacSha512);
    return hmacSha512;
  },

  aes(log) {
    const key = AES.generateKeyToBase64();
    log('AES key', key);
    const iv = Coding.toBase64(TEXT);
    log('AES iv', iv);
    const encrypted = AES.encryptCbcPkcs7ToBase64(key, iv, PLAIN);
    log('AES encrypted', encrypted);
    const decrypted = AES.decryptCbcPkcs7FromBase64(key, iv, encrypted);
    log('AES decrypted', decrypted);
    return decrypted;
  },

  // A key pair of its own for each run.
  rsa(log) {
    const keys = RSA.generateKeyToBase64();
    log('RSA public key', keys.getPublicKey());
    log('RSA private key', keys.getPrivateKey().length);
    const encrypted = RSA.encryptToBase64(false, keys.getPublicKey(), PLAIN);
    log('RSA encrypted', encrypted);
    const decrypted = RSA.decryptFromBase64(true, keys.getPrivateKey(), encrypted);
    log('RSA decrypted', decrypted);
    return decrypted;
  },

  randomHolder(log) {
    log('nextBoolean', RandomHolder.nextBoolean());
    for (const name of ['nextInt', 'nextFloat', 'nextDouble', 'nextLong']) {
      log(name, RandomHolder[name]());
      log(`${name} from 10 to 20`, RandomHolder[name](10, 20));
    }
    for (const name of ['randomAscii', 'randomAlphabetic', 'randomAlphanumeric', 'randomGraph', 'randomPrint']) log(name, RandomHolder[name](16));
    const digits = RandomHolder.randomNumeric(16);
    log('randomNumeric', digits);
    return digits;
  },

  uuid(log) {
    const uuid = UUID.randomUUID();
    log('randomUUID', uuid);
    return uuid;
  },
};
