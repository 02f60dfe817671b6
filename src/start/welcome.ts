import { styleText } from 'node:util'
import { AUTO_MODEL, type Feature } from '../base/domain/chat-job.ts'
import { usdText } from '../base/domain/money.ts'
import { DEMO_MODEL, serves } from '../base/domain/offer.ts'
import { quoteForShell } from '../base/runtime/quote-for-shell.ts'
import { isLocalHost } from '../http/console/is-local-request.ts'
import type { Finding } from '../market/supply/detection/detect-local.ts'
import { baseUrlOf } from './config/base-url.ts'
import type { Config } from './config/config.ts'
import type { FirstRun } from './first-run.ts'

export interface WelcomeInput {
  readonly config: Config
  /** The port that the server listens on. */
  readonly port: number
  /** Set only when this start created the first customer. Its key is shown here and never again. */
  readonly created: FirstRun | undefined
  /** Local servers and clouds that detection found. */
  readonly findings: readonly Finding[]
  /** The hosters that are offered, with their models. */
  readonly hosters: readonly { readonly name: string; readonly baseUrl: string; readonly models: readonly string[] }[]
}

/** Returns the text that a start prints for the operator. Contains the API key only if this start created it. */
export function welcome({ config, port, created, findings, hosters }: WelcomeInput): string {
  const baseUrl = baseUrlOf(config, port)
  return [
    '',
    `${bold('Switchyard')} is ready: ${bold(`${baseUrl}/v1`)}   console: ${baseUrl}   API reference: ${baseUrl}/docs`,
    ...supplyLines(config, findings),
    ...proxyLines(config),
    ...hosters.map(({ name, baseUrl, models }) => `  hoster ${name} (${baseUrl}): ${listModels(models)}`),
    ...(created ? firstSteps(baseUrl, created, exampleModel(config, findings)) : []),
    '',
    '',
  ].join('\n')
}

/** Returns a curl command in one line that any POSIX shell runs unchanged. */
export function curlLine(baseUrl: string, apiKey: string, model: string): string {
  const body = JSON.stringify({ model, messages: [{ role: 'user', content: 'Hello!' }] })
  return `curl ${baseUrl}/v1/chat/completions -H 'Authorization: Bearer ${apiKey}' -H 'Content-Type: application/json' -d ${quoteForShell(body)}`
}

/**
 * Returns the id of the best model for examples of chat: one that the operator configured, else one that runs on this
 * machine, else one of a cloud, else the demo. Servers list their models in the order of their own preference.
 */
export function exampleModel(config: Config, findings: readonly Finding[] = []): string {
  const chats = ({ features }: { features: readonly Feature[] }) => serves({ features: new Set(features) }, 'chat')
  const configured = config.endpoints.map(({ models }) => models.find(chats)?.id)
  const foundAt = (kind: Finding['kind']) =>
    findings.filter(found => found.kind === kind).map(({ chatModels }) => chatModels[0])
  const [best] = [...configured, ...foundAt('local'), ...foundAt('cloud')].filter(id => id !== undefined)
  return best ?? (config.demo.enabled ? DEMO_MODEL : AUTO_MODEL)
}

function supplyLines(config: Config, findings: readonly Finding[]): string[] {
  return [
    ...(config.demo.enabled
      ? ['  demo: a built-in model without weights that answers with generated filler text; for trying things out']
      : []),
    ...config.endpoints.map(
      ({ name, base_url, models }) => `  ${name} (${base_url}): ${listModels(models.map(({ id }) => id))}`,
    ),
    ...findings.map(
      ({ name, baseUrl, models, note }) => `  found ${name} (${baseUrl}): ${listModels(models)}\n    ${note}`,
    ),
  ]
}

/** A proxy makes every browser look like one on this machine, so the operator should know what that costs. */
function proxyLines({ server: { publicBaseUrl, trustedProxies } }: Config): string[] {
  const isNamed = publicBaseUrl !== null && !isLocalHost(new URL(publicBaseUrl).hostname)
  return isNamed || trustedProxies.length > 0
    ? ['  proxy: people come through a proxy or by another name, so operators need a second factor']
    : []
}

function firstSteps(baseUrl: string, created: FirstRun, model: string): string[] {
  const { email, apiKey, creditNanos, welcomePath } = created
  return [
    '',
    'Open the console. This link sets your password; it works once, for 24 hours:',
    '',
    `  ${bold(`${baseUrl}${welcomePath}`)}`,
    '',
    `Created the operator and first customer ${email} with ${usdText(creditNanos)} USD of credit.`,
    'Its API key, which is shown only once:',
    '',
    `  ${bold(apiKey)}`,
    '',
    'Try it:',
    '',
    `  ${curlLine(baseUrl, apiKey, model)}`,
    '',
    'Or use the OpenAI SDK (npm install openai) in a file hello.mjs:',
    '',
    "  import OpenAI from 'openai'",
    `  const client = new OpenAI({ baseURL: '${baseUrl}/v1', apiKey: '${apiKey}' })`,
    `  const chat = await client.chat.completions.create({ model: '${model.replace(/[\\']/g, '\\$&')}', messages: [{ role: 'user', content: 'Hello!' }] })`,
    '  console.log(chat.choices[0].message.content)',
  ]
}

const LISTED_MAX = 8

function listModels(models: readonly string[]): string {
  if (models.length === 0) return 'no models'
  const more = models.length - LISTED_MAX
  return models.slice(0, LISTED_MAX).join(', ') + (more > 0 ? `, and ${more} more` : '')
}

function bold(text: string): string {
  return styleText('bold', text, { stream: process.stdout })
}
