import { styleText } from 'node:util'
import { usdText } from '../domain/money.ts'
import type { FirstRun } from './first-run.ts'

export interface BannerFacts {
  /** Without `/v1`. */
  readonly baseUrl: string
  /** Only when this start made it: its key is shown here and never again. */
  readonly firstRun?: FirstRun | undefined
  /** A model that answers now, for the examples. */
  readonly exampleModel: string
  /** What was found by looking round. */
  readonly findings: readonly {
    readonly name: string
    readonly baseUrl: string
    readonly models: readonly string[]
    readonly note: string
  }[]
  /** Every model that can be asked for. */
  readonly models: readonly string[]
}

/** What a start tells the operator. Holds a secret only when the first run is in it. */
export function banner(facts: BannerFacts): string {
  const { baseUrl, firstRun, findings, models } = facts
  const bold = (text: string) => styleText('bold', text, { stream: process.stdout })
  return [
    '',
    `${bold('Switchyard')} listens at ${bold(`${baseUrl}/v1`)}, API reference at ${baseUrl}/docs`,
    `Models: ${listed(models)}`,
    ...findings.map(found => `Found ${found.name} at ${found.baseUrl}: ${listed(found.models)}\n  ${found.note}`),
    ...(firstRun ? welcome(facts, firstRun, bold) : []),
    '',
  ].join('\n')
}

function welcome({ baseUrl, exampleModel }: BannerFacts, run: FirstRun, bold: (text: string) => string): string[] {
  return [
    '',
    `Created the customer ${run.email} with ${usdText(run.creditNanos)} USD of credit and this API key, shown only now:`,
    '',
    `  ${bold(run.apiKey)}`,
    '',
    'Try it:',
    '',
    `  ${curlLine(baseUrl, run.apiKey, exampleModel)}`,
    '',
    'Or with the OpenAI SDK:',
    '',
    ...sdkLines(baseUrl, run.apiKey, exampleModel).map(line => `  ${line}`),
  ]
}

/** One line that works as it stands in any POSIX shell. */
export function curlLine(baseUrl: string, apiKey: string, model: string): string {
  const body = JSON.stringify({ model, messages: [{ role: 'user', content: 'Hello!' }] })
  return `curl ${baseUrl}/v1/chat/completions -H 'Authorization: Bearer ${apiKey}' -H 'Content-Type: application/json' -d '${body}'`
}

function sdkLines(baseUrl: string, apiKey: string, model: string): string[] {
  return [
    `const client = new OpenAI({ baseURL: '${baseUrl}/v1', apiKey: '${apiKey}' })`,
    `const chat = await client.chat.completions.create({ model: '${model}', messages: [{ role: 'user', content: 'Hello!' }] })`,
    'console.log(chat.choices[0].message.content)',
  ]
}

const LISTED_MAX = 8

function listed(models: readonly string[]): string {
  if (models.length === 0) return 'none'
  const more = models.length - LISTED_MAX
  return models.slice(0, LISTED_MAX).join(', ') + (more > 0 ? `, and ${more} more` : '')
}
