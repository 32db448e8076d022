// Each case is a function that gives what it has found and what is right; both are compared as JSON.
import { tools } from 'forebay/rules';

const { AES, Assert, Coding, DateHolder, Files, Hashing, PrometheusParser, RandomHolder, RengineEvent, RSA, UUID } = tools;

const TEXT = '1234567890abcdef';
const ALPHABET = 'abcdefghijklmnopqrstuvwxyz';

const error = (work) => {
  try {
    work();
  } catch (error) {
    return error.message;
  }
  return 'no error';
};

const cases = {
  coding: () => {
    const base64 = Coding.toBase64(TEXT);
    const base58 = Coding.toBase58(TEXT);
    const hex = Coding.toHex(TEXT);
    return [
      [
        [base64, Coding.fromBase64(base64), Coding.toHexFromBase64(base64)],
        [base58, Coding.fromBase58(base58), Coding.toHexFromBase58(base58)],
        [hex, Coding.fromHex(hex), Coding.toBase58FromHex(hex), Coding.toBase64FromHex(hex)],
        [Coding.toHex('é'), Coding.fromHex('c3a9'), Coding.fromHex('ff')],
        typeof Coding.fromBase64(base58),
      ],
      [
        ['MTIzNDU2Nzg5MGFiY2RlZg==', TEXT, hex],
        ['75M7MfQsC4p2rUNe7dDjXK', TEXT, hex],
        ['31323334353637383930616263646566', TEXT, base58, base64],
        ['c3a9', 'é', '\ufffd'],
        'string',
      ],
    ];
  },
  coding_of_nothing: () => [
    ['toBase58', 'fromBase58', 'toBase64', 'fromBase64', 'toHex', 'fromHex', 'toBase58FromHex', 'toHexFromBase58', 'toBase64FromHex', 'toHexFromBase64'].map((name) => [Coding[name](null), Coding[name](undefined), Coding[name]('')]),
    Array(10).fill([null, null, '']),
  ],
  coding_of_what_is_none: () => [
    [error(() => Coding.toBase64(1)), error(() => Coding.fromHex('xy')), error(() => Coding.fromBase58([])), error(() => Coding.toBase58('x'.repeat(16_385)))],
    ['`str` is a text, and not 1', "hex has no character 'x', which stands at 0", '`base58Str` is a text, and not an array', 'what becomes base58 has 16385 bytes, a tool takes at most 16384'],
  ],
  hashing: () => [
    [
      Hashing.md5(TEXT),
      Hashing.sha1(TEXT),
      Hashing.sha256(TEXT),
      Hashing.sha384(TEXT),
      Hashing.sha512(TEXT),
      Hashing.hmacSha1('abc', TEXT),
      Hashing.hmacSha256('abc', TEXT),
      Hashing.hmacSha512('abc', TEXT),
      Hashing.md5(null),
      Hashing.hmacSha512('abc', null),
      error(() => Hashing.hmacSha1(null, TEXT)),
    ],
    [
      'mWzhf2q8n+EmtXql8djJLA==',
      '/5mKvBzm2PAaZ1+hlzaORMiRbpw=',
      'jpkWxTQMQ/oAP+LdVM1OMCev+/wNYx5M2Fj2TsCfqe0=',
      'tiFU1CFxQiAbWH5RVmDHqdPeZiHSXntgWNPdceIioQv5ADH/BvlF32lgOcwpos0c',
      'bffeM5s5rhEl8YHJIpzbkE/jHqwhmqIzUFkkAQGTkINJUiH3++jDLXP47oHcaFOcmMFD8VcA2UTIwOr7J1Z6eg==',
      'LriWPJr6L5OtpRS5O+yUVttg4mw=',
      'TOUbNGXSll+DCOUhODilI3XGLBJ+sBfg/UkH8USXEKs=',
      'z/EfkNDTK/okjQ+jyOQ+vI22o9zFjK38cTtL9r9sEy1a5thhkF4b9sr6LZdR1yE4wIPwNIzApzX7mBcKg0nT+Q==',
      null,
      null,
      '`key` is a text, and not null',
    ],
  ],
  aes: () => {
    const vector = Coding.toBase64(TEXT);
    const key = AES.generateKeyToBase64();
    const block = ALPHABET.slice(0, 16);
    const known = Coding.toBase64('0123456789abcdef0123456789abcdef');
    return [
      [
        [Coding.toHexFromBase64(key).length, key !== AES.generateKeyToBase64()],
        AES.decryptCbcPkcs7FromBase64(key, vector, AES.encryptCbcPkcs7ToBase64(key, vector, ALPHABET)),
        AES.decryptCbcNoPaddingFromBase64(key, vector, AES.encryptCbcNoPaddingToBase64(key, vector, block)),
        AES.decryptEcbPkcs7FromBase64(key, AES.encryptEcbPkcs7ToBase64(key, ALPHABET)),
        AES.decryptEcbNoPaddingFromBase64(key, AES.encryptEcbNoPaddingToBase64(key, block)),
        [AES.encryptCbcPkcs7ToBase64(known, vector, ALPHABET), AES.encryptCbcNoPaddingToBase64(known, vector, block), AES.encryptEcbPkcs7ToBase64(known, ALPHABET), AES.encryptEcbNoPaddingToBase64(known, block)],
        [AES.encryptCbcPkcs7ToBase64(key, vector, null), AES.decryptEcbPkcs7FromBase64(key, undefined)],
      ],
      [[64, true], ALPHABET, block, ALPHABET, block, ['VroGqlKL+oOYkNZ/dyaPgOjXGyvxyk7TANzld2ov85I=', 'FCS8pv5ZH7U0fHbQRK2sZA==', 'LKoD/7w/RZ+EJ0VagzQLf4S5eX1Hd6WZ3YIqWJInxgs=', 'hWJ98EUed0DrJgsd8fT8ZA=='], [null, null]],
    ];
  },
  aes_of_what_is_none: () => {
    const vector = Coding.toBase64(TEXT);
    return [
      [
        error(() => AES.encryptCbcPkcs7ToBase64('', vector, ALPHABET)),
        error(() => AES.encryptCbcPkcs7ToBase64('AAAA', vector, ALPHABET)),
        error(() => AES.encryptCbcPkcs7ToBase64(AES.generateKeyToBase64(), 'AAAA', ALPHABET)),
        error(() => AES.encryptCbcPkcs7ToBase64(AES.generateKeyToBase64(), null, ALPHABET)),
        error(() => AES.encryptEcbNoPaddingToBase64(AES.generateKeyToBase64(), ALPHABET)).slice(0, 80),
      ],
      [
        '`base64Key` is a text with something in it, and this one is empty',
        'an AES key has 16, 24 or 32 bytes, and this one has 3 when read as base64',
        'the initial vector of CBC has 16 bytes, and this one has 3 when read as base64',
        '`base64Iv` is a text, and not null',
        'AES without padding takes a multiple of 16 bytes, and this text has 26; the meth',
      ],
    ];
  },
  rsa: () => {
    const pair = RSA.generateKeyToBase64();
    const encrypted = RSA.encryptToBase64(false, pair.getPublicKey(), ALPHABET);
    return [
      [
        RSA.decryptFromBase64(true, pair.getPrivateKey(), encrypted),
        Coding.toHexFromBase64(encrypted).length,
        Coding.toHexFromBase64(pair.getPublicKey()).length,
        String(pair) === `RsaKeyPair [publicKey=${pair.getPublicKey()}, privateKey=***]`,
        JSON.stringify(pair) === JSON.stringify({ publicKey: pair.getPublicKey(), privateKey: pair.getPrivateKey() }),
        pair.getPublicKey() === RSA.generateKeyToBase64().getPublicKey(),
        [RSA.encryptToBase64(false, pair.getPublicKey(), null), RSA.decryptFromBase64(true, pair.getPrivateKey(), null)],
      ],
      [ALPHABET, 256, 324, true, true, false, [null, null]],
    ];
  },
  rsa_of_what_is_none: () => {
    const pair = RSA.generateKeyToBase64();
    return [
      [
        error(() => RSA.encryptToBase64(true, pair.getPrivateKey(), ALPHABET)),
        error(() => RSA.decryptFromBase64(false, pair.getPublicKey(), ALPHABET)),
        error(() => RSA.encryptToBase64(false, pair.getPrivateKey(), ALPHABET)).split(':')[0],
        error(() => RSA.encryptToBase64(false, ' ', ALPHABET)),
        error(() => RSA.encryptToBase64(false, pair.getPublicKey(), ALPHABET.repeat(5))),
        error(() => RSA.generateKeyToBase64(512)),
      ],
      [
        'a text is encrypted with a public key, and `isPrivateKey` says that this one is private',
        'a text is decrypted with a private key, and `isPrivateKey` says that this one is public',
        'this is no public key',
        '`publicBase64Key` is a text with something in it, and this one is empty',
        'this key encrypts at most 117 bytes, and the text has 130',
        'RSA keys of 512 bits are not made; 1024, 2048, 3072 and 4096 are accepted',
      ],
    ];
  },
  uuid: () => {
    const id = UUID.randomUUID();
    return [[/^[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/.test(id), id === UUID.randomUUID(), id.toString() === id], [true, false, true]];
  },
  assert: () => [
    [
      [Assert.hasTextOf('a', 'x'), Assert.hasText('a', 'm'), Assert.notNullOf(0, 'x'), Assert.notEmptyOf([1], 'x'), Assert.notEmpty({ a: 1 }, 'm'), Assert.notEmptyOf(new Set([1, 2]), 'x').size],
      error(() => Assert.isTrue(true, 'm')),
      error(() => Assert.isTrue(false, 'no %s of %s: %d%% %s', 'a', 'b', 5)),
      error(() => Assert.isTrue(false, () => 'made')),
      error(() => Assert.isTrue('true', 'm')),
      error(() => Assert.isTrueOf(false, 'a > b')),
      error(() => Assert.isNull(0, 'not null')),
      error(() => Assert.isNullOf(0, 'x')),
      error(() => Assert.notNull(null, 'is null')),
      error(() => Assert.notNullOf(undefined, 'x')),
      error(() => Assert.hasText('  ', 'blank')),
      error(() => Assert.hasTextOf(5, 'x')),
      error(() => Assert.doesNotContain('abc', 'b', 'has b')),
      error(() => Assert.doesNotContainOf('abc', 'b', 'x')),
      error(() => Assert.doesNotContainOf('abc', 'd', 'x')),
      error(() => Assert.notEmpty([], 'empty')),
      error(() => Assert.notEmptyOf(new Map(), 'x')),
      error(() => Assert.notEmpty(null, 'nothing')),
      error(() => Assert.noNullElements([1, null], 'null in it')),
      error(() => Assert.noNullElementsOf([undefined], 'x')),
      error(() => Assert.noNullElementsOf([1], 'x')),
    ],
    [
      ['a', 'a', 0, [1], { a: 1 }, 2],
      'no error',
      'no a of b: 5% %s',
      'made',
      '`expression` is true or false, and not a string',
      'a > b does not hold',
      'not null',
      'x has to be null',
      'is null',
      'x is required',
      'blank',
      'x is required',
      'has b',
      'x must not have `b` in it',
      'no error',
      'empty',
      'x must not be empty',
      'nothing',
      'null in it',
      'x must not have null in it',
      'no error',
    ],
  ],
  dates: () => {
    const date = DateHolder.parseDate('2023-02-11 09:24:02.123', 'yyyy-MM-dd HH:mm:ss.SSS');
    return [
      [
        JSON.stringify({ date, none: new date.constructor(NaN) }),
        DateHolder.formatDate(date, "yyyy/MM/dd 'at' HH''mm''ss,SSS 'o''clock'"),
        DateHolder.formatDate(date.getTime(), 'yyyyMMdd'),
        DateHolder.parseDate('20230211', 'yyyyMMdd').toISOString(),
        DateHolder.parseDate('2023-2-1', 'yyyy-MM-dd').toISOString(),
        DateHolder.parseDate('07', 'HH').toISOString(),
        [DateHolder.formatDate(null, 'yyyy'), DateHolder.formatDate(date, null), DateHolder.formatDate(null), DateHolder.parseDate(' ', 'yyyy'), DateHolder.parseDate('2023', null)],
      ],
      [
        '{"date":"2023-02-11T09:24:02.123+00:00","none":null}',
        "2023/02/11 at 09'24'02,123 o'clock",
        '20230211',
        '2023-02-11T00:00:00.000Z',
        '2023-02-01T00:00:00.000Z',
        '1970-01-01T07:00:00.000Z',
        [null, null, null, null, null],
      ],
    ];
  },
  dates_that_are_none: () => [
    [
      error(() => DateHolder.formatDate(new Date(), 'EEE')),
      error(() => DateHolder.formatDate(new Date(), 'yyyyy')),
      error(() => DateHolder.formatDate(new Date(), "yyyy 'x")),
      error(() => DateHolder.formatDate('2023', 'yyyy')),
      error(() => DateHolder.formatDate(NaN, 'yyyy')),
      error(() => DateHolder.parseDate('2023-02-30', 'yyyy-MM-dd')),
      error(() => DateHolder.parseDate('2023-02-01x', 'yyyy-MM-dd')),
      error(() => DateHolder.parseDate('2023/02', 'yyyy-MM')),
      error(() => DateHolder.parseDate('25', 'HH')),
      error(() => DateHolder.getDateOf(15, 1, 'yyyy')),
      error(() => DateHolder.getDateOf(1, 1.5, 'yyyy')),
      error(() => DateHolder.getDateOf(1, 2_000_000, 'yyyy')),
      error(() => DateHolder.formatDate('y'.repeat(257))),
      error(() => DateHolder.getDistanceOf(0, 1, 'SSS')),
    ],
    [
      "the pattern `EEE` has `EEE`; yyyy, MM, dd, HH, mm, ss, SSS and text in '' are accepted",
      "the pattern `yyyyy` has `yyyyy`; yyyy, MM, dd, HH, mm, ss, SSS and text in '' are accepted",
      "the pattern `yyyy 'x` has a quote that is not closed",
      '`date` is a date or milliseconds since 1970, and not a string',
      '`date` is no date that there is',
      '`2023-02-30` is no date that `yyyy-MM-dd` describes',
      '`2023-02-01x` is no date that `yyyy-MM-dd` describes',
      '`2023/02` is no date that `yyyy-MM` describes',
      '`25` is no date that `HH` describes',
      '`calendarField` is a whole number from 1 to 14, and not 15',
      '`amount` is a whole number from -2147483647 to 2147483647, and not 1.5',
      '`amount` is no date that there is',
      'a pattern has at most 256 characters, and this one has 257',
      '`SSS` is no unit of time; yy, MM, dd, HH, mm and ss are',
    ],
  ],
  dates_from_now: () => {
    const now = Date.now();
    const day = 86_400_000;
    const near = (date, ms) => Math.abs(date.getTime() - now - ms) < 60_000;
    const [first, second] = [DateHolder.currentNanoTime(), DateHolder.currentNanoTime()];
    const inAMonth = new Date(now);
    inAMonth.setUTCMonth(inAMonth.getUTCMonth() + 1);
    const month = DateHolder.getDateOf(2, 1, 'yyyy');
    return [
      [
        near(DateHolder.getDate(), 0) && Math.abs(DateHolder.currentMillis() - now) < 60_000,
        [[3, 7 * day], [5, day], [8, 7 * day], [9, day / 2], [10, day / 24], [12, 60_000], [13, 1000], [14, 1]].map(([field, ms]) => near(DateHolder.getDateOf(field, 10, 'yyyy'), 10 * ms)),
        (month.getUTCMonth() - new Date(now).getUTCMonth() + 12) % 12 === 1 && month.getUTCDate() <= new Date(now).getUTCDate(),
        DateHolder.getDateOf(1, -100, 'x').getUTCFullYear() - new Date(now).getUTCFullYear(),
        DateHolder.getFormatDateOf(5, 0, 'yyyy-MM-dd') === DateHolder.formatDate('yyyy-MM-dd'),
        Number.isInteger(first) && second >= first,
        JSON.stringify(DateHolder.getDate()).endsWith('+00:00"') && DateHolder.getDateOf(5, 1, null) === null,
      ],
      [true, Array(8).fill(true), true, -100, true, true, true],
    ];
  },
  distances: () => {
    const day = 86_400_000;
    return [
      [
        ['yy', 'MM', 'dd', 'HH', 'mm', 'ss'].map((unit) => DateHolder.getDistanceOf(new Date(0), new Date(725 * day + 1999), unit)),
        DateHolder.getDistanceOf(day, 0, 'dd'),
        Object.is(DateHolder.getDistanceOf(1, 0, 'd'), 0),
        DateHolder.getDistanceOf(null, 0, 'd'),
      ],
      [[2, 24, 725, 17_400, 1_044_000, 62_640_001], -1, true, null],
    ];
  },
  random_numbers: () => {
    const many = (work) => Array.from({ length: 300 }, work);
    const all = (work, holds) => many(work).every(holds);
    const whole = Number.isInteger;
    return [
      [
        new Set(many(() => RandomHolder.nextBoolean())).size,
        all(() => RandomHolder.nextInt(), (n) => whole(n) && n >= 0 && n < 2_147_483_647),
        new Set(many(() => RandomHolder.nextInt(10, 20))).size,
        all(() => RandomHolder.nextInt(10, 20), (n) => n >= 10 && n < 20),
        all(() => RandomHolder.nextLong(10, 20), (n) => n >= 10 && n < 20),
        all(() => RandomHolder.nextLong(), (n) => Number.isSafeInteger(n) && n >= 0) && many(() => RandomHolder.nextLong()).some((n) => n > 2 ** 45),
        all(() => RandomHolder.nextDouble(10, 20), (n) => n >= 10 && n < 20) && many(() => RandomHolder.nextDouble()).some((n) => n > 1e300),
        all(() => RandomHolder.nextFloat(10, 20), (n) => n >= 10 && n < 20 && Math.fround(n) === n) && many(() => RandomHolder.nextFloat()).some((n) => n > 1e37 && Math.fround(n) === n),
        [RandomHolder.nextInt(7, 7), RandomHolder.nextDouble(0.5, 0.5), RandomHolder.nextFloat(0.1, 0.1 + 2 ** -55), RandomHolder.nextDouble(1, 1 + 2 ** -52)],
        [error(() => RandomHolder.nextInt(-1, 5)), error(() => RandomHolder.nextInt(5, 4)), error(() => RandomHolder.nextDouble(0, Infinity))],
      ],
      [2, true, 10, true, true, true, true, true, [7, 0.5, 0.1, 1], ['`startInclusive` is a whole number from 0 to 2147483647, and not -1', '`endExclusive` is a whole number from 5 to 2147483647, and not 4', '`endExclusive` is a number from 0 to 1.7976931348623157e+308, and not Infinity']],
    ];
  },
  random_texts: () => {
    const kinds = (text) => new Set(text).size;
    const long = 5000;
    return [
      [
        [/^[ -~]{16}$/.test(RandomHolder.randomAscii(16)), /^[a-zA-Z]{16}$/.test(RandomHolder.randomAlphabetic(16)), /^[0-9a-zA-Z]{16}$/.test(RandomHolder.randomAlphanumeric(16)), /^[!-~]{16}$/.test(RandomHolder.randomGraph(16)), /^[0-9]{16}$/.test(RandomHolder.randomNumeric(16)), /^[ -~]{16}$/.test(RandomHolder.randomPrint(16))],
        [kinds(RandomHolder.randomAscii(long)), kinds(RandomHolder.randomAlphabetic(long)), kinds(RandomHolder.randomAlphanumeric(long)), kinds(RandomHolder.randomGraph(long)), kinds(RandomHolder.randomNumeric(long)), kinds(RandomHolder.randomPrint(long))],
        new Set(Array.from({ length: 300 }, () => RandomHolder.randomNumeric(2, 5).length)).size,
        [[...RandomHolder.random(50)].length, /\p{C}/u.test(RandomHolder.random(50)), /^\p{L}{20}$/u.test(RandomHolder.random(20, true, false)), /^[\p{L}\p{Nd}]{20}$/u.test(RandomHolder.random(20, true, true))],
        [/^[a-e]{40}$/.test(RandomHolder.random(40, 'abcde')), /^[ab]{40}$/.test(RandomHolder.random(40, ['a', 'b'])), /^[a-z]{40}$/.test(RandomHolder.random(40, 97, 123, false, false)), /^[0-9]{40}$/.test(RandomHolder.random(40, 0, 128, false, true)), /^[bc]{40}$/.test(RandomHolder.random(40, 1, 3, false, false, 'a', 'b', 'c', 'd'))],
        [RandomHolder.randomNumeric(0), RandomHolder.random(0), RandomHolder.randomAscii(65_536).length],
        [error(() => RandomHolder.randomAscii(65_537)), error(() => RandomHolder.randomAscii(5, 4)), error(() => RandomHolder.random(5, '')), error(() => RandomHolder.random(1, 0, 32, true, true)), error(() => RandomHolder.random(1, 5, 4, true, true))],
      ],
      [
        Array(6).fill(true),
        [95, 52, 62, 94, 10, 95],
        3,
        [50, false, true, true],
        Array(5).fill(true),
        ['', '', 65_536],
        ['`count` is a whole number from 0 to 65536, and not 65537', '`maxLengthExclusive` is a whole number from 5 to 65537, and not 4', 'there is no character to choose from', 'from 0 to 32 there are no characters, or next to none, of the wanted kind', '`end` is a whole number from 5 to 1114112, and not 4'],
      ],
    ];
  },
  metrics: () => {
    const parsed = PrometheusParser.parse(
      [
        '# HELP http_seconds How long\\nit took',
        '# TYPE http_seconds histogram',
        'http_seconds_bucket{le="0.5",path="/a,b=\\"c\\\\}"} 3 1672820506681',
        'http_seconds_count 4',
        '',
        '# a comment',
        '# TYPE pool gauge\r',
        'pool{name="G1 Old Gen",} 1.672820506681E9\r',
        'pool{} NaN',
        'other{ a = "1" , b = "2" } +Inf',
      ].join('\n'),
    );
    const [first] = parsed;
    first.setValue('5');
    return [
      [parsed, first.getTags()['path'], first.getName(), first.getValue(), String(parsed[4]), PrometheusParser.parse(null), PrometheusParser.parse(' \n')],
      [
        [
          { help: 'How long\nit took', type: 'histogram', subType: 'http_seconds', name: 'http_seconds_bucket', value: '5', tags: { le: '0.5', path: '/a,b="c\\}' } },
          { help: 'How long\nit took', type: 'histogram', subType: 'http_seconds', name: 'http_seconds_count', value: '4', tags: {} },
          { help: '', type: 'gauge', subType: 'pool', name: 'pool', value: '1.672820506681E9', tags: { name: 'G1 Old Gen' } },
          { help: '', type: 'gauge', subType: 'pool', name: 'pool', value: 'NaN', tags: {} },
          { help: '', type: '', subType: '', name: 'other', value: '+Inf', tags: { a: '1', b: '2' } },
        ],
        '/a,b="c\\}',
        'http_seconds_bucket',
        '5',
        'PrometheusMetrics {"help":"","type":"","subType":"","name":"other","value":"+Inf","tags":{"a":"1","b":"2"}}',
        [],
        [],
      ],
    ];
  },
  metrics_that_are_none: () => [
    [error(() => PrometheusParser.parse('a 1\nb')), error(() => PrometheusParser.parse('a{b=c} 1')), error(() => PrometheusParser.parse('{a="b"} 1')), error(() => PrometheusParser.parse(5))],
    ['line 2 is no sample: there is no number behind the name in `b`', 'line 1 is no sample: the labels are not as `name="value"`, with commas between them and braces around them, in `a{b=c} 1`', 'line 1 is no sample: there is no name in `{a="b"} 1`', '`metricsString` is a text, and not 5'],
  ],
  files: () => {
    Files.writeFromString('/1.txt', ALPHABET);
    Files.writeFromString('1.txt', '\nzweite Zeile\r\n€', true);
    Files.writeFromByteArray('/bytes', [0, -1, 255]);
    Files.writeFromByteArray('/bytes', new Uint8Array([7]), true);
    Files.mkdirs('/dir1');
    Files.mkdirs('/dir1', 'below');
    Files.createFile('/dir1/.new');
    Files.createFile('/dir1/.new');
    Files.writeFromString('/dir1/null', null);
    const listed = Files.listFiles('/dir1').map((info) => [info.getPath(), info.getName(), info.isDir(), info.isFile(), info.isHidden()]);
    const [one] = Files.listFiles('/', (name) => name === 'bytes');
    const found = [
      [Files.readToString('/1.txt'), Files.readLines('/1.txt'), [...Files.readToByteArray('bytes')], Files.readToString('/dir1/.new')],
      [listed, Files.listFiles('nowhere'), String(one), one],
      Files.forceDelete('/dir1'),
      Files.listFiles('/').map((info) => info.getName()),
    ];
    return [
      found,
      [
        [`${ALPHABET}\nzweite Zeile\r\n€`, [ALPHABET, 'zweite Zeile', '€'], [0, 255, 255, 7], ''],
        [
          [
            ['/dir1/.new', '.new', false, true, true],
            ['/dir1/below', 'below', true, false, false],
            ['/dir1/null', 'null', false, true, false],
          ],
          [],
          'FileInfo [path=/bytes, name=bytes, isDir=false, isFile=true, isHidden=false]',
          { path: '/bytes', name: 'bytes', dir: false, file: true, hidden: false },
        ],
        null,
        ['1.txt', 'bytes'],
      ],
    ];
  },
  lines_from_the_middle: () => {
    Files.writeFromString('/log', 'eins\nzwei\r\ndrei ä\nstop\n\nlast');
    Files.writeFromString('/ended', 'a\n\nb\n');
    const read = (from, limit, stopper = () => false) => Files.seekReadLines('/log', from, limit, stopper);
    return [
      [read(5, 8), read(0, 100, (line) => line === 'stop'), read(18, 100), read(26, 10), read(900, 10), read(0, 3).getLines(), error(() => read(-1, 5)), error(() => read(0, 0)), error(() => read(0, 5, null)), Files.readLines('/ended')],
      [
        { startPos: 5, endPos: 19, length: 29, lines: ['zwei', 'drei ä'], hasNext: true },
        { startPos: 0, endPos: 24, length: 29, lines: ['eins', 'zwei', 'drei ä'], hasNext: false },
        { startPos: 18, endPos: 19, length: 29, lines: [], hasNext: false },
        { startPos: 26, endPos: 29, length: 29, lines: ['ast'], hasNext: true },
        { startPos: 900, endPos: 900, length: 29, lines: [], hasNext: true },
        ['eins'],
        '`startPos` is a whole number from 0 to 9007199254740991, and not -1',
        '`aboutLimit` is a whole number from 1 to 10420224, and not 0',
        '`stopper` is a function, and not null',
        ['a', '', 'b'],
      ],
    ];
  },
  files_that_are_none: () => [
    [error(() => Files.readToString('/nothing')).split(':')[0], error(() => Files.readToString('../x')).split(';')[0], error(() => Files.readToString(' ')), error(() => Files.writeFromByteArray('x', [256])), error(() => Files.writeFromString('x', 5)), error(() => Files.forceDelete('/'))],
    ['`/nothing` cannot be read', '`../x` leads up with `..`', '`path` is a text with something in it, and this one is empty', '`data[0]` is a whole number from -128 to 255, and not 256', '`data` is a text, and not 5', '`/` is a folder of `allow.files` itself, and stays'],
  ],
  events: () => {
    const location = new RengineEvent.EventLocation({ city: 'Bern', ipv6: false, latitude: 46.9 });
    const source = new RengineEvent.EventSource({ time: 5, principals: ['a'], location });
    const event = new RengineEvent('login', 7, source, 'body', { k: 'v' });
    const now = new RengineEvent('login', { principals: ['b'] });
    return [
      [
        [event.getType(), event.getObservedTime(), event.getBody(), event.getAttributes(), event.getSource().getTime(), event.getSource().getPrincipals(), event.getSource().getLocation().getCity(), event.getSource().getLocation().getCountry()],
        [Math.abs(now.getObservedTime() - Date.now()) < 60_000, now.getBody(), now.getSource().getPrincipals(), now.getAttributes(), now.getSource().getLocation().getIpv6()],
        String(event),
        JSON.parse(JSON.stringify(event)).source.location.city,
        Object.keys(JSON.parse(JSON.stringify(event))),
        [error(() => new RengineEvent('', source)), error(() => new RengineEvent('x')), error(() => new RengineEvent('x', 0, source))],
      ],
      [
        ['login', 7, 'body', { k: 'v' }, 5, ['a'], 'Bern', null],
        [true, null, ['b'], {}, null],
        'RengineEvent(type=login, observedTime=7, body=body, attributes={"k":"v"})',
        'Bern',
        ['source', 'type', 'observedTime', 'body', 'attributes'],
        ['`type` is a text with something in it, and this one is empty', '`source` is an object, and is required', '`observedTime` is a whole number from 1 to 8640000000000000, and not 0'],
      ],
    ];
  },
};

export default async (request) => {
  if (request.path === '/') return Object.keys(cases);
  const [found, right] = await cases[request.path.slice(1)]();
  const [a, b] = [JSON.stringify(found), JSON.stringify(right)];
  return Response.json(a === b ? 'right' : `${a} instead of ${b}`);
};
