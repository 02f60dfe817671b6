import { readAmount } from '../../format/typed-number.ts'
import { readTools } from './read-tools.ts'
import { type ChatMessage, messagesOf, type Turn } from './talk.ts'

/** What a talk sends beside its prompts. Texts stay as typed, so that the gateway refuses them in its own words. */
export interface ChatSetup {
  readonly models: readonly ChosenModel[]
  readonly tier: string
  readonly isPrivate: boolean
  readonly isTrusted: boolean
  readonly maxCost: string
  readonly system: string
  readonly temperature: string
  readonly topP: string
  readonly maxTokens: string
  /** JSON. */
  readonly tools: string
}

export interface ChosenModel {
  readonly slot: number
  readonly model: string
}

export const MODELS_MAX = 4

export const noSetup: ChatSetup = {
  models: [],
  tier: 'balanced',
  isPrivate: false,
  isTrusted: false,
  maxCost: '',
  system: '',
  temperature: '',
  topP: '',
  maxTokens: '',
  tools: '',
}

/** The body of the next request to one of the models. */
export function bodyOf(
  setup: ChatSetup,
  { slot, model }: ChosenModel,
  turns: readonly Turn[],
  next: readonly ChatMessage[],
) {
  const { tier, isPrivate, isTrusted, maxCost, system, temperature, topP, maxTokens } = setup
  const { tools } = readTools(setup.tools)
  return {
    model,
    messages: [
      ...(system.trim() === '' ? [] : [{ role: 'system', content: system } as const]),
      ...messagesOf(turns, slot),
      ...next,
    ],
    ...numberField('temperature', temperature),
    ...numberField('top_p', topP),
    ...numberField('max_tokens', maxTokens),
    ...(tools.length > 0 && { tools }),
    tier,
    ...(isPrivate && { privacy_mode: true }),
    ...(isTrusted && { trusted_only: true }),
    ...numberField('max_cost_usd', maxCost),
  }
}

/** Nothing for an empty field. What is no number stays text. */
function numberField(name: string, text: string): Readonly<Record<string, number | string>> {
  if (text.trim() === '') return {}
  const number = Number(readAmount(text))
  return { [name]: Number.isNaN(number) ? text : number }
}

const URL_SHOWN = 48

/** The body with its images cut: one of them fills thousands of lines. */
export function withShortImages<Body extends object>(body: Body): Body {
  const shorten = (_key: string, value: unknown) =>
    typeof value === 'string' && value.startsWith('data:image/') ? `${value.slice(0, URL_SHOWN)}…` : value
  return JSON.parse(JSON.stringify(body, shorten)) as Body
}
