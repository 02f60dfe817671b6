import { mkdtempSync, rmSync } from 'node:fs'
import { registerHooks } from 'node:module'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath, pathToFileURL } from 'node:url'
import { bedrockAnswer } from '../test/harness/scripted-bedrock.ts'
import { type RecordedRequest, startScriptedUpstream } from '../test/harness/scripted-upstream.ts'
import { type ScriptedDialect, type VendorAnswer, vendorAnswer } from '../test/harness/scripted-vendors.ts'
import { cloneOnce, startGateway } from './start-gateway.ts'

// The compliance suite of Open Responses against a Switchyard with one scripted server of each dialect. The suite is no package
// of npm: it is cloned once, or taken from the directory in OPEN_RESPONSES.

const here = fileURLToPath(new URL('.', import.meta.url))
const REPOSITORY = 'https://github.com/openresponses/openresponses.git'
const COMMIT = '92c12d96d7b61d6d15e2214daa5e9c6000ab6e1c'

const dialects = ['chat', 'responses', 'messages', 'gemini', 'converse'] as const

interface TestResult {
  readonly id: string
  readonly status: 'pending' | 'running' | 'passed' | 'failed' | 'skipped'
  readonly errors?: readonly string[]
}

interface Suite {
  runAllTests(config: object, onProgress: (result: TestResult) => void): Promise<readonly TestResult[]>
}

export interface ComplianceResult {
  readonly dialect: string
  readonly results: readonly TestResult[]
}

/** Runs all tests of the suite for each dialect of servers. */
export async function checkOpenResponses(): Promise<ComplianceResult[]> {
  const suite = await loadSuite()
  const home = mkdtempSync(join(tmpdir(), 'switchyard-open-responses-'))
  const upstream = await startScriptedUpstream({ models: dialects })
  upstream.always((request, response) => {
    const answer = answerTo(request)
    const behaviour = request.path.includes('/converse')
      ? bedrockAnswer(answer)
      : vendorAnswer(dialectOf(request.path), answer)
    return behaviour(request, response)
  })
  try {
    await using gateway = await startGateway(home, configFor(upstream.baseUrl))
    const found: ComplianceResult[] = []
    for (const dialect of dialects) {
      const { baseUrl, apiKey } = gateway
      const config = { baseUrl, apiKey, authHeaderName: 'Authorization', useBearerPrefix: true, model: dialect }
      found.push({ dialect, results: await suite.runAllTests(config, () => {}) })
    }
    return found
  } finally {
    await upstream.close()
    rmSync(home, { recursive: true, force: true, maxRetries: 5 })
  }
}

function configFor(upstream: string): string {
  const endpoints = dialects.map(dialect => {
    const model = `{ id: ${dialect}, features: [tools, json_schema, images], price_per_million_usd: { input: 0.1, output: 0.4 } }`
    return `  - { name: ${dialect}, kind: local, base_url: ${upstream}, speaks: [${dialect}], models: [${model}] }\n`
  })
  const tier = '{ requests_per_minute: 100000, requests_per_day: 100000, daily_spend_cap_usd: "1000" }'
  return `demo: { enabled: false }\nsettlement: commit\naccount_tiers: { free: ${tier}, standard: ${tier} }\nendpoints:\n${endpoints.join('')}`
}

function dialectOf(path: string): ScriptedDialect {
  if (path.endsWith('/messages')) return 'messages'
  if (path.endsWith('/responses')) return 'responses'
  return path.includes(':') ? 'gemini' : 'chat'
}

/** A request that offers a tool gets a call of it. */
function answerTo({ rawBody }: RecordedRequest): VendorAnswer {
  const args = { location: 'San Francisco, CA' }
  return rawBody.includes('get_weather') ? { calls: [{ id: 'call_1', name: 'get_weather', args }] } : { text: 'OK.' }
}

/** The suite is written for Bun: its imports lack extensions, and it reads version 3 of zod, which zod 4 contains. */
async function loadSuite(): Promise<Suite> {
  const directory = process.env.OPEN_RESPONSES ?? (await cloneOnce(join(here, '.open-responses'), REPOSITORY, COMMIT))
  const source = pathToFileURL(`${directory}/`).href
  registerHooks({
    resolve(specifier, context, next) {
      if (!context.parentURL?.startsWith(source)) return next(specifier, context)
      if (specifier === 'zod') return next('zod/v3', { ...context, parentURL: import.meta.url })
      return next(/^\..*\/[^.]*$/.test(specifier) ? `${specifier}.ts` : specifier, context)
    },
  })
  return import(pathToFileURL(join(directory, 'src/lib/compliance-tests.ts')).href)
}
