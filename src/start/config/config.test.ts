import { generateKeyPairSync } from 'node:crypto'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, expect, test } from 'vitest'
import { type Config, ConfigError, limitsOfTier, loadConfig } from './config.ts'
import { configuredOffers } from './configured-offers.ts'

const directory = mkdtempSync(join(tmpdir(), 'switchyard-config-'))
afterAll(() => rmSync(directory, { recursive: true }))

function load(yaml: string, env: Record<string, string> = {}): Config {
  writeFileSync(join(directory, 'switchyard.yaml'), yaml)
  return loadConfig({ env, cwd: directory })
}

function faultsOf(yaml: string, env: Record<string, string> = {}): string[] {
  try {
    load(yaml, env)
  } catch (error) {
    expect(error).toBeInstanceOf(ConfigError)
    return (error as Error).message.split('\n')
  }
  return []
}

const endpoint = `endpoints:
  - name: gpu
    kind: local
    base_url: http://10.0.0.5:8000/v1/
    models:
      - id: llama
        price_per_million_usd: { input: 0.1, output: "0.25" }
`

test('an empty environment without a file is a valid configuration', () => {
  const config = loadConfig({ env: {}, cwd: '/nowhere' })
  expect(config).toMatchObject({
    configFile: null,
    dataDir: '/nowhere/data',
    databaseUrl: null,
    databaseOwnerUrl: null,
    databaseDeskUrl: null,
    server: { host: '127.0.0.1', port: 8080 },
    signup: { creditNanos: 5_000_000_000n, tier: 'free' },
    platform: { hosterShareBps: 8_000 },
  })
})

test('a file with only comments and empty sections is valid', () => {
  expect(load('# nothing\nserver:\n  # port: 1\n').server.port).toBe(8080)
})

test('the environment overrides the file, but an empty variable does not', () => {
  const yaml = 'server: { host: 10.0.0.1, port: 9000 }\nlog: { level: warn }'
  expect(load(yaml, { PORT: '9001', HOST: '', LOG_LEVEL: 'debug' })).toMatchObject({
    server: { host: '10.0.0.1', port: 9001 },
    log: { level: 'debug' },
  })
})

test('the variables of OpenTelemetry override the file', () => {
  const yaml = 'telemetry: { endpoint: "http://a:4318", headers: "x-key=a,b=c%20d==", sample_percent: 12.5 }'
  expect(load(yaml).telemetry).toMatchObject({
    endpoint: 'http://a:4318',
    headers: { 'x-key': 'a', b: 'c d==' },
    sampleRatio: 0.125,
    followsParent: true,
  })
  const env = {
    OTEL_EXPORTER_OTLP_ENDPOINT: 'https://b/otlp/',
    OTEL_EXPORTER_OTLP_HEADERS: 'Authorization=Basic%20abc',
    OTEL_SERVICE_NAME: 'gate',
    OTEL_TRACES_SAMPLER: 'traceidratio',
    OTEL_TRACES_SAMPLER_ARG: '0.1',
  }
  expect(load(yaml, env).telemetry).toMatchObject({
    endpoint: 'https://b/otlp',
    headers: { authorization: 'Basic abc' },
    serviceName: 'gate',
    sampleRatio: 0.1,
    followsParent: false,
  })
  expect(load(yaml, { OTEL_TRACES_SAMPLER: 'parentbased_always_off' }).telemetry).toMatchObject({
    sampleRatio: 0,
    followsParent: true,
  })
  const [fault] = faultsOf('', { OTEL_EXPORTER_OTLP_HEADERS: 'a secret without a name' })
  expect(fault).toContain('OTEL_EXPORTER_OTLP_HEADERS is invalid')
  expect(fault).not.toContain('secret without')
})

test('what clusters set for other programs of OpenTelemetry stops nothing', () => {
  const foreign = {
    OTEL_EXPORTER_OTLP_ENDPOINT: 'collector:4317',
    OTEL_TRACES_SAMPLER: 'xray',
    OTEL_TRACES_SAMPLER_ARG: 'endpoint=http://localhost:14250',
  }
  expect(load('', foreign).telemetry).toMatchObject({ endpoint: null, sampleRatio: 1, ignored: Object.keys(foreign) })
  const off = { OTEL_EXPORTER_OTLP_ENDPOINT: 'https://b', OTEL_SDK_DISABLED: 'true' }
  expect(load('', off).telemetry).toMatchObject({ endpoint: null, ignored: [] })
})

test('a file that was named must exist', () => {
  expect(() => loadConfig({ env: { SWITCHYARD_CONFIG: 'other.yaml' }, cwd: directory })).toThrow(
    `${join(directory, 'other.yaml')}: does not exist`,
  )
})

test('a file given by name overrides the environment', () => {
  writeFileSync(join(directory, 'other.yaml'), 'server: { port: 1 }')
  const config = loadConfig({ env: { SWITCHYARD_CONFIG: 'missing.yaml' }, cwd: directory, file: 'other.yaml' })
  expect(config).toMatchObject({ configFile: join(directory, 'other.yaml'), server: { port: 1 } })
  rmSync(join(directory, 'other.yaml'))
})

test('the configuration is deeply frozen', () => {
  const config = load(endpoint)
  expect(() => {
    ;(config.endpoints[0]!.models[0]!.price_per_million_usd as { input: bigint }).input = 0n
  }).toThrow(TypeError)
})

test('money is parsed from its digits, quoted or not', () => {
  const config = load('signup: { credit_usd: 900000000.000000001 }\nplatform: { fee_percent: 12.5 }')
  expect(config.signup.creditNanos).toBe(900_000_000_000_000_001n)
  expect(config.platform).toEqual({ hosterShareBps: 8_750 })
})

test('an endpoint becomes offers', () => {
  const [offer, ...others] = configuredOffers(load(endpoint))
  expect(others).toEqual([])
  expect(offer).toMatchObject({
    offerId: 'gpu/llama',
    modelId: 'llama',
    upstreamModel: 'llama',
    price: { inputPicoPerToken: 100_000n, outputPicoPerToken: 250_000n },
    contextTokens: 32_768,
    maxOutputTokens: 32_768,
    features: new Set(['tools', 'json_schema']),
    endpoint: {
      endpointId: 'gpu',
      kind: 'local',
      hosterId: null,
      baseUrl: 'http://10.0.0.5:8000/v1',
      apiKey: null,
      dialect: { maxTokensField: 'max_tokens', keyHeader: 'authorization', dropFields: [] },
      timeouts: { connectMs: 3_000, totalMs: 600_000 },
      hosterShareBps: 0,
    },
  })
})

test('secrets, numbers and flags can come from the environment', () => {
  const yaml = `${endpoint}    api_key: \${GPU_KEY}\nserver:\n  port: \${MY_PORT:-9000}\ndemo: { enabled: "\${DEMO}" }\n`
  const config = load(yaml, { GPU_KEY: '12345', DEMO: 'false' })
  expect(config.endpoints[0]!.api_key).toBe('12345')
  expect(config.server.port).toBe(9000)
  expect(config.demo.enabled).toBe(false)
})

test('a dollar sign is escaped by another one, and text without a closing brace is text', () => {
  const text = (written: string) => load(`smtp: { from: '${written}' }`, { A: 'a' }).smtp.from
  expect(text(`$\${A} \${A}`)).toBe(`\${A} a`)
  expect(text(`\${A} \${A $\${B`)).toBe(`a \${A \${B`)
})

test('a tier that was removed from the file has the limits of free', () => {
  const config = load(
    'account_tiers: { gold: { requests_per_minute: 1, requests_per_day: 2, daily_spend_cap_usd: 3 } }',
  )
  expect(limitsOfTier(config, 'gold')).toEqual({
    requestsPerMinute: 1,
    requestsPerDay: 2,
    dailySpendCapNanos: 3_000_000_000n,
  })
  for (const tier of ['silver', 'toString', '__proto__'])
    expect(limitsOfTier(config, tier)).toBe(config.accountTiers.free)
})

test.each([
  ['server:\n  prot: 1', 'switchyard.yaml:2: server.prot is not a setting; did you mean port?'],
  ['srever: {}', 'switchyard.yaml:1: srever is not a setting; did you mean server?'],
  ['log: { xyzzy: 1 }', 'switchyard.yaml:1: log.xyzzy is not a setting; use one of level, format'],
  ['\nserver: []', 'switchyard.yaml:2: server must contain keys'],
  ['server: 5', 'switchyard.yaml:1: server must contain keys'],
  ['server: word', 'switchyard.yaml:1: server must contain keys'],
  ['account_tiers: 5', 'switchyard.yaml:1: account_tiers must contain keys'],
  [
    'account_tiers: { gold: 5, free: 6 }',
    'switchyard.yaml:1: account_tiers.free must contain keys',
    'switchyard.yaml:1: account_tiers.gold must contain keys',
  ],
  [
    endpoint.replace(/\{ input.*\}/, '0.5'),
    'switchyard.yaml:7: endpoints[0].models[0].price_per_million_usd must contain keys',
  ],
  ['- a', 'switchyard.yaml:1: must contain keys such as server:, not a list, a text or a number'],
  ['5', 'switchyard.yaml:1: must contain keys such as server:, not a list, a text or a number'],
  ['endpoints: {}', 'switchyard.yaml:1: endpoints must be a list'],
  ['server: { port: 1e3 }', 'switchyard.yaml:1: server.port is 1e3; it must be a whole number, 0 to 65535'],
  ['server: { port: 65536 }', 'switchyard.yaml:1: server.port is 65536; it must be a whole number, 0 to 65535'],
  ['demo:\n  enabled: maybe', 'switchyard.yaml:2: demo.enabled is "maybe"; it must be true or false'],
  ['signup: { credit_usd: -1 }', 'switchyard.yaml:1: signup.credit_usd is -1; it must be USD, at most 9 decimals'],
  ['signup: { tier: gold }', 'switchyard.yaml:1: signup.tier is not an account tier; use one of free, standard, scale'],
  [
    `log: { level: '\${NOPE}' }`,
    `switchyard.yaml:1: log.level needs the environment variable NOPE, which is not set; set it or write \${NOPE:-default}`,
  ],
  [
    `log: { level: '\${1}' }`,
    `switchyard.yaml:1: log.level has "\${1}", which is neither \${NAME} nor \${NAME:-default}; write $\${ for a literal \${`,
  ],
  [
    'account_tiers: { gold: { requests_per_minute: 1, requests_per_day: 1 } }',
    'switchyard.yaml:1: account_tiers.gold.daily_spend_cap_usd is missing; write USD, at most 9 decimals',
  ],
  [
    endpoint.replace('name: gpu', 'name: demo'),
    'switchyard.yaml:2: endpoints[0].name is "demo", the built-in endpoint; choose another name',
  ],
  [
    endpoint.replace(/ +price.*\n/, ''),
    'switchyard.yaml:6: endpoints[0].models[0].price_per_million_usd is missing: a model without a price cannot be sold; write input and output, 0 if it is free',
  ],
  [
    endpoint.replace('input: 0.1, ', ''),
    'switchyard.yaml:7: endpoints[0].models[0].price_per_million_usd.input is missing; write USD per million tokens, at most 6 decimals',
  ],
  [
    endpoint.replace('id: llama', 'id: auto'),
    'switchyard.yaml:6: endpoints[0].models[0].id is "auto"; it must be a model id without blanks, not auto or demo',
  ],
  [
    endpoint.replace('http://', 'http://me:secret@'),
    'switchyard.yaml:4: endpoints[0].base_url is "http://***@10.0.0.5:8000/v1/"; it must be an http or https URL',
  ],
  [
    `${endpoint}        context_tokens: 4096\n        max_output_tokens: 4097\n`,
    'switchyard.yaml:9: endpoints[0].models[0].max_output_tokens is 4097, more than its context_tokens, 4096; input and output together must fit into the context',
  ],
  ...['n_predict', 'model', 'headers', 'service_tier', 'mcp_servers', 'a b'].map((field): [string, string] => [
    `chat: { forward_fields: { local: [priority, "${field}"] } }`,
    `switchyard.yaml:1: chat.forward_fields.local[1] is "${field}"; it must be a name of a body field that the gateway may pass on`,
  ]),
  [
    'account_tiers: { free: { daily_spend_cap_usd: *cap } }',
    'switchyard.yaml:1:47: account_tiers.free.daily_spend_cap_usd is *cap, but there is no anchor &cap above; there are no anchors',
  ],
  [
    'platform:\n  fee_percent: *fe\nsignup: { credit_usd: &fee 5 }',
    'switchyard.yaml:2:16: platform.fee_percent is *fe, but there is no anchor &fe above; the anchors of the file are &fee',
  ],
  [
    'fooo: *x',
    'switchyard.yaml:1:7: fooo is *x, but there is no anchor &x above; there are no anchors',
    expect.stringMatching(/^switchyard.yaml:1: fooo is not a setting; use one of server, /),
  ],
  ['*x', 'switchyard.yaml:1:1: is *x, but there is no anchor &x above; there are no anchors'],
  ['endpoints: *x', 'switchyard.yaml:1:12: endpoints is *x, but there is no anchor &x above; there are no anchors'],
  [
    'log: {}\n---\nserver: {}',
    'switchyard.yaml:2: begins a second document, but only one is read; remove this --- and merge the two',
  ],
  [
    endpoint + endpoint.replace('endpoints:\n', ''),
    'switchyard.yaml:8: endpoints[1].name repeats "gpu"; each endpoint needs a different name',
  ],
  [
    `endpoints:
  - name: gpu
    kind: local
    base_url: http://127.0.0.1:8000/v1
    models:
      - id: m
        price_per_million_usd:
          input: 1
          output: 2
          steps:
            - { above_input_tokens: 1000, input: 2, output: 3 }
            - { above_input_tokens: 1000, input: 3, output: 4 }
`,
    'switchyard.yaml:12: endpoints[0].models[0].price_per_million_usd.steps[1].above_input_tokens repeats 1000; each step needs a different length',
  ],
])('%j is refused with line, key, problem and fix', (yaml, ...faults) => {
  expect(faultsOf(yaml)).toEqual(faults)
})

test('a file that is not YAML is refused with its line', () => {
  expect(faultsOf('server:\n  port: "1')[0]).toMatch(/^switchyard\.yaml:2: is not valid YAML: /)
  expect(faultsOf('log: {}\nlog: {}')[0]).toMatch(/^switchyard\.yaml:2: is not valid YAML: Map keys must be unique/)
})

test('all problems are reported at once, in the order of the file', () => {
  expect(faultsOf('log: { level: loud }\nreports: { requests_per_minute: 0 }\ndemo: { enabled: 3 }')).toHaveLength(3)
})

test('an unset variable, a missing anchor and a bad environment hide no other problem', () => {
  const yaml = `server:
  prot: 3
  port: *port
log:
  level: \${LV}
  levle: \${LV}
signup: { tier: gold }
account_tiers: { silver: { requests_per_minute: 0 } }
${endpoint.replace('name: gpu', 'name: demo').replace('10.0.0.5', `\${GPU}`)}`
  const places = faultsOf(yaml, { PORT: 'x' }).map(fault => fault.split(/ is | needs /)[0])
  expect(places).toEqual([
    'environment: PORT',
    'switchyard.yaml:2: server.prot',
    'switchyard.yaml:3:9: server.port',
    'switchyard.yaml:5: log.level',
    'switchyard.yaml:6: log.levle',
    'switchyard.yaml:6: log.levle',
    'switchyard.yaml:7: signup.tier',
    'switchyard.yaml:8: account_tiers.silver.requests_per_minute',
    'switchyard.yaml:8: account_tiers.silver.requests_per_day',
    'switchyard.yaml:8: account_tiers.silver.daily_spend_cap_usd',
    'switchyard.yaml:10: endpoints[0].name',
    'switchyard.yaml:12: endpoints[0].base_url',
  ])
})

test('a value is not compared with an invalid one', () => {
  expect(faultsOf('signup: { tier: gold }\naccount_tiers: [gold]')).toEqual([
    'switchyard.yaml:2: account_tiers must contain keys',
  ])
  expect(faultsOf('signup: { tier: gold }\naccount_tiers: { gold: { requests_per_minute: 1 } }')).toHaveLength(2)
  expect(faultsOf(`${endpoint}        context_tokens: many\n        max_output_tokens: 99999\n`)).toHaveLength(1)
})

test('an anchor can be used in several places', () => {
  const config = load('signup: { credit_usd: &usd 7 }\naccount_tiers: { free: { daily_spend_cap_usd: *usd } }')
  expect(config.accountTiers.free!.dailySpendCapNanos).toBe(7_000_000_000n)
})

test.each(['ключ', '"a\\u0001b"', '"a b"'])('a key that a header cannot contain is refused at the start: %s', key => {
  expect(faultsOf(`${endpoint}    api_key: ${key}\n`)).toEqual([
    expect.stringMatching(/api_key is invalid .* it must be ASCII text without blanks$/),
  ])
})

test('the password of a mail server may contain blanks', () => {
  expect(load('', { SMTP_PASSWORD: 'abcd efgh ijkl mnop' }).smtp.password).toBe('abcd efgh ijkl mnop')
})

test('a malformed secret is not repeated', () => {
  const [fault] = faultsOf('', { SWITCHYARD_MASTER_KEY: 'hunter2' })
  expect(fault).toBe(
    'environment: SWITCHYARD_MASTER_KEY is invalid (not shown, because it is a secret); it must be 32 bytes as hex or base64',
  )
})

test('an endpoint and its models name their dialects, and the key goes into the header of the vendor', () => {
  const spoken = (baseUrl: string, keys: string, modelKeys = '') => {
    const yaml = endpoint.replace('http://10.0.0.5:8000/v1/', `${baseUrl}\n    ${keys}`)
    const [offer] = configuredOffers(load(`${yaml}        ${modelKeys}\n`))
    return [offer!.speaks, offer!.endpoint.dialect.keyHeader]
  }
  expect(spoken('http://a/v1', 'speaks: [chat]')).toEqual([undefined, 'authorization'])
  expect(spoken('https://api.anthropic.com/v1', 'speaks: [messages]')).toEqual([['messages'], 'x-api-key'])
  expect(spoken('http://a/v1', 'speaks: [gemini]', 'speaks: [chat]')).toEqual([undefined, 'x-goog-api-key'])
  expect(spoken('https://n.openai.azure.com/openai/v1', 'speaks: [responses, chat]')).toEqual([
    ['responses', 'chat'],
    'api-key',
  ])
  expect(spoken('https://n.openai.azure.com.example.com/v1', 'key_header: auto')[1]).toBe('authorization')
  expect(spoken('http://a/v1', 'speaks: [messages]\n    key_header: authorization')).toEqual([
    ['messages'],
    'authorization',
  ])
})

test.each([
  ['speaks: [claude]', 'endpoints[0].speaks[0] is "claude"; it must be one of chat, responses, messages, gemini'],
  ['speaks: []', 'endpoints[0].speaks is empty; list at least one dialect'],
])('%s is refused', (line, fault) => {
  const faults = faultsOf(endpoint.replace('    models:', `    ${line}\n    models:`))
  expect(faults).toHaveLength(1)
  expect(faults[0]).toContain(fault)
})

test('the key of a service account is JSON or the path of its file, and a wrong one is a clear error', () => {
  const { privateKey } = generateKeyPairSync('rsa', { modulusLength: 2048 })
  const key = JSON.stringify({
    type: 'service_account',
    private_key: privateKey.export({ type: 'pkcs8', format: 'pem' }),
    client_email: 'a@p.iam.gserviceaccount.com',
    token_uri: 'https://oauth2.googleapis.com/token',
  })
  const path = join(directory, 'key.json')
  writeFileSync(path, key)
  const yaml = `${endpoint}    google_service_account: \${KEY}\n`
  for (const KEY of [key, path]) {
    const [offer] = configuredOffers(load(yaml, { KEY }))
    expect(offer!.endpoint).toMatchObject({ apiKey: null, credential: { clientEmail: 'a@p.iam.gserviceaccount.com' } })
  }
  const place = 'switchyard.yaml:8: endpoints[0].google_service_account'
  expect(faultsOf(yaml, { KEY: join(directory, 'missing.json') })).toEqual([
    `${place} names a file that cannot be read (no such file or directory); it must be the path of a JSON key`,
  ])
  writeFileSync(path, 'secret')
  expect(faultsOf(yaml, { KEY: path })).toEqual([
    `${place} is not a JSON object; create a JSON key for a service account of Google Cloud`,
  ])
  expect(faultsOf(`${yaml}    api_key: x\n`, { KEY: key })).toEqual([
    'switchyard.yaml:9: endpoints[0].api_key cannot be used with google_service_account; remove one of them',
  ])
})

test('keys of AWS are complete, and their region comes from the address', () => {
  const aws = (base: string, more = '') =>
    `${endpoint.replace('http://10.0.0.5:8000/v1/', base)}    speaks: [converse]
    aws_access_key_id: \${ID}
    aws_secret_access_key: \${SECRET}
${more}`
  const env = { ID: 'AKID', SECRET: 'very/secret+' }
  const credentialAt = (yaml: string) => configuredOffers(load(yaml, env))[0]!.endpoint.credential
  const keys = { kind: 'aws_keys', accessKeyId: 'AKID', secretAccessKey: 'very/secret+' }
  expect(credentialAt(aws('https://bedrock-runtime.eu-central-1.amazonaws.com'))).toEqual({
    ...keys,
    ...{ sessionToken: null, region: 'eu-central-1' },
  })
  expect(credentialAt(aws('https://vpc.example.com', '    aws_region: us-east-1\n    aws_session_token: t\n'))).toEqual(
    {
      ...keys,
      ...{ sessionToken: 't', region: 'us-east-1' },
    },
  )
  const place = (line: number) => `switchyard.yaml:${line}: endpoints[0].`
  expect(faultsOf(aws('https://vpc.example.com'), env)).toEqual([
    `${place(9)}aws_access_key_id needs aws_region, because base_url names no region of AWS`,
  ])
  expect(faultsOf(`${endpoint}    aws_secret_access_key: x\n`)).toEqual([
    `${place(8)}aws_secret_access_key needs aws_access_key_id`,
  ])
  expect(faultsOf(aws('https://bedrock-runtime.us-east-1.amazonaws.com', '    api_key: x\n'), env)).toEqual([
    `${place(11)}api_key cannot be used with aws_access_key_id; remove one of them`,
  ])
})
