import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import * as z from 'zod'
import { stepOf, usdPerMillion } from '../../src/base/domain/money.ts'
import type { Offer } from '../../src/base/domain/offer.ts'
import { offerPrice } from '../../src/base/domain/price-list.ts'
import { loadConfig } from '../../src/start/config/config.ts'
import { configuredOffers } from '../../src/start/config/configured-offers.ts'
import { backupPlan } from '../../src/start/config/read-backup.ts'
import { usageSettings } from '../../src/start/config/read-usage.ts'
import { cloudKeyNames, environmentSchema, fileSchema } from '../../src/start/config/schema.ts'
import { typeDescription } from '../../src/start/config/values.ts'
import { serviceAccountJson } from '../harness/service-account.ts'
import { tableRows } from './page.ts'

const root = new URL('../../', import.meta.url)
const docs = readFileSync(new URL('docs/config.md', root), 'utf8')

interface Setting {
  name: string
  type: string
  /** As in the docs: the default, `required`, or a dash if omitting the setting has a meaning. */
  fallback: string
}

test('docs/config.md lists exactly the variables that are read, with types and defaults', () => {
  expect(documented('Environment')).toEqual(settingsOf(environmentSchema, ''))
})

test('docs/config.md lists exactly the keys of the file, with types and defaults', () => {
  expect(documented('File')).toEqual(settingsOf(fileSchema, ''))
})

test('docs/config.md lists every cloud key that is detected', () => {
  const section = docs.split(/^## /m).find(part => part.startsWith('Cloud keys\n'))!
  expect([...section.matchAll(/`([A-Z]+_[A-Z_]+)`/g)].map(([, name]) => name)).toEqual([...cloudKeyNames])
})

test('the examples of endpoints in docs/config.md load', () => {
  const examples = [...docs.matchAll(/```yaml\n(endpoints:\n[^`]+)```/g)].map(([, yaml]) => yaml!)
  expect(examples.length).toBeGreaterThan(2)
  const env = {
    AZURE_OPENAI_API_KEY: 'key',
    AWS_ACCESS_KEY_ID: 'id',
    AWS_SECRET_ACCESS_KEY: 'secret',
    SOME_CLOUD_API_KEY: 'key',
    GOOGLE_APPLICATION_CREDENTIALS: serviceAccountJson('https://oauth2.googleapis.com/token'),
  }
  for (const yaml of examples) {
    for (const { endpoint } of offersOf(yaml, env)) expect(endpoint.apiKey ?? endpoint.credential).toBeTruthy()
  }
})

/** Returns the offers of a configuration file. */
function offersOf(yaml: string, env: Record<string, string>): readonly Offer[] {
  const directory = mkdtempSync(join(tmpdir(), 'switchyard-docs-'))
  try {
    writeFileSync(join(directory, 'switchyard.yaml'), yaml)
    return configuredOffers(loadConfig({ env, cwd: directory }))
  } finally {
    rmSync(directory, { recursive: true })
  }
}

test('the prices of the example in docs/config.md are as its table says', () => {
  const yaml = /```yaml\n(endpoints:\n[^`]+windows:[^`]+)```/.exec(docs)![1]!
  const offers = offersOf(yaml, { SOME_CLOUD_API_KEY: 'key' })
  const rows = tableRows(docs, 'a request of')
  expect(rows.length).toBeGreaterThan(5)
  const shown = rows.map(([time, inputTokens]) => {
    const [day, clock] = time!.split(' ') as [string, string]
    const date = { Sun: '22', Mon: '23' }[day]
    const atMs = Date.parse(`2026-11-${date}T${clock}:00Z`)
    const { terms } = offerPrice(offers[0]!.timedPrices!, 'cloud', atMs)
    const { price, parts } = stepOf(terms!, Number(inputTokens))
    const prices = [price.inputPicoPerToken, parts.cache_read, parts.cache_write, price.outputPicoPerToken]
    return [time, inputTokens, ...prices.map(picos => usdPerMillion(picos).toFixed(2))]
  })
  expect(shown).toEqual(rows)
})

test('the example file has every key and loads', () => {
  const config = loadConfig({ env: { SWITCHYARD_CONFIG: 'switchyard.example.yaml' }, cwd: root.pathname })
  expect(config.endpoints).toHaveLength(1)
  const text = readFileSync(new URL('switchyard.example.yaml', root), 'utf8')
  const missing = settingsOf(fileSchema, '')
    .map(({ name }) => name.split('.').at(-1)!.replaceAll('[]', ''))
    .filter(key => !new RegExp(`^[^#]*\\b${key}:`, 'm').test(text))
  expect(missing).toEqual([])
})

test('the defaults in the example file are the real defaults', () => {
  const env = { SWITCHYARD_CONFIG: 'switchyard.example.yaml' }
  const example = loadConfig({ env, cwd: root.pathname })
  const plain = loadConfig({ env: {}, cwd: '/' })
  const { partner, ...accountTiers } = example.accountTiers
  const { backup } = fileSchema.parse({})
  const exampleBackup = {
    ...backup,
    to: 's3://example-backups/switchyard/',
    s3: {
      ...backup.s3,
      endpoint: 'https://s3.us-east-1.amazonaws.com',
      access_key_id: 'none',
      secret_access_key: 'none',
    },
    test_directory: '/var/tmp',
  }
  expect(partner).toBeDefined()
  expect({ ...example, accountTiers }).toEqual({
    ...plain,
    configFile: example.configFile,
    written: example.written,
    dataDir: example.dataDir,
    endpoints: example.endpoints,
    alarms: { ...plain.alarms, webhookUrl: example.alarms.webhookUrl },
    smtp: { ...plain.smtp, host: 'smtp.example.com', user: 'switchyard', password: 'none' },
    accounts: { ...plain.accounts, oidc: example.accounts.oidc },
    routing: { ...plain.routing, auto: { ...plain.routing.auto, quality: example.routing.auto.quality } },
    backup: backupPlan(exampleBackup, '/'),
    usage: usageSettings(
      {
        usage: {
          keep_months: 24,
          archive_directory: '/var/lib/switchyard/archive',
          export_to: 's3://example-usage/switchyard/',
          export_format: 'parquet',
        },
        backup: exampleBackup,
      },
      '/',
      '/',
    ),
    cells: example.cells,
    security: example.security,
    accessLog: { ...plain.accessLog, file: 'access.log' },
    telemetry: { ...plain.telemetry, endpoint: 'http://127.0.0.1:4318', headers: { 'x-api-key': 'none' } },
    payments: {
      ...plain.payments,
      instructions: example.payments.instructions,
      stripe: example.payments.stripe,
      paddle: example.payments.paddle,
    },
    server: {
      ...plain.server,
      publicBaseUrl: example.server.publicBaseUrl,
      memoryBudgetBytes: 268_435_456,
      maxConnections: 4_096,
    },
  })
  const [endpoint] = example.endpoints
  const bare = fileSchema.parse({
    endpoints: [
      {
        name: 'x',
        kind: 'local',
        base_url: 'http://a',
        models: [{ id: 'm', price_per_million_usd: { input: '0', output: '0' } }],
      },
    ],
  }).endpoints[0]!
  const { key_header, dialect, timeouts } = bare
  expect(endpoint).toMatchObject({ key_header, dialect, timeouts })
  const { features } = bare.models[0]!
  expect(endpoint!.models[0]).toMatchObject({ features })
})

/** Returns the rows of the tables under a heading: `| name | type | default | meaning |`. */
function documented(heading: string): Setting[] {
  const section = docs.split(/^## /m).find(part => part.startsWith(`${heading}\n`)) ?? ''
  return [...section.matchAll(/^\| `([^`]+)` +\| ([^|]+?) +\| ([^|]+?) +\| [^|]+ \|$/gm)]
    .map(([, name, type, fallback]) => ({ name: name!, type: type!, fallback: fallback!.replaceAll('`', '') }))
    .sort(byName)
}

function settingsOf(schema: z.core.$ZodType, name: string, fallback = 'required'): Setting[] {
  if (schema instanceof z.ZodOptional) return settingsOf(schema.def.innerType, name, '-')
  if (schema instanceof z.ZodPrefault) return settingsOf(schema.def.innerType, name, shown(schema.def.defaultValue))
  const type = typeDescription(schema)
  if (type !== undefined) return [{ name, type, fallback }]
  if (schema instanceof z.ZodArray) {
    const inner = schema.element
    const words = typeDescription(inner)
    return words === undefined ? settingsOf(inner, `${name}[]`) : [{ name, type: `list: ${words}`, fallback }]
  }
  if (!(schema instanceof z.ZodObject)) throw new Error(`${name}: this test does not know this kind of schema`)
  const below = (key: string) => (name === '' ? key : `${name}.${key}`)
  const known = Object.entries(schema.shape).flatMap(([key, inner]) => settingsOf(inner as z.ZodType, below(key)))
  const more = schema.def.catchall
  const open = more === undefined || more instanceof z.ZodNever ? [] : settingsOf(more, below('<name>'))
  return [...known, ...open].sort(byName)
}

function shown(fallback: unknown): string {
  return Array.isArray(fallback) ? `[${fallback.join(', ')}]` : String(fallback)
}

function byName(a: Setting, b: Setting): number {
  return a.name < b.name ? -1 : 1
}
