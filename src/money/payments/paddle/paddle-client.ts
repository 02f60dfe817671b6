import { isJsonObject } from '../../../base/runtime/json-object.ts'
import { ProviderUnavailable } from '../payment-driver.ts'
import type { PaddleSettings } from './paddle-settings.ts'

/** What the gateway reads of a transaction. Amounts are text, in the smallest unit of the currency. */
export interface PaddleTransaction {
  readonly id: string
  readonly status: 'draft' | 'ready' | 'billed' | 'paid' | 'completed' | 'canceled' | 'past_due'
  readonly customer_id: string | null
  readonly custom_data: unknown
  readonly currency_code: string
  readonly created_at: string
  readonly billed_at: string | null
  readonly checkout: { readonly url: string | null } | null
  readonly details: { readonly totals: { subtotal: string; discount: string; total: string; fee: string | null } }
  /** Only where they were asked for. */
  readonly adjustments?: readonly PaddleAdjustment[]
}

/** Money that goes back to the payer. */
export interface PaddleAdjustment {
  readonly id: string
  readonly action: string
  readonly transaction_id: string
  readonly status: 'pending_approval' | 'approved' | 'rejected' | 'reversed'
  readonly currency_code: string
  readonly created_at: string
  readonly totals: { readonly total: string }
}

/** Calls Paddle's API. All methods throw ProviderUnavailable when it does not answer, or asks to wait. */
export interface PaddleClient {
  /** Returns null where Paddle has nothing. */
  get<T>(path: string): Promise<T | null>
  /** Reads the pages of a list until `isEnough`. */
  list<T>(path: string, isEnough?: (page: readonly T[]) => boolean): Promise<T[]>
  post<T>(path: string, body: object): Promise<T>
}

/** The shapes of answers follow this version, whatever the default of the account is. */
const API_VERSION = '1'
const TIMEOUT_MS = 10_000

export function createPaddleClient({ apiKey, isLive, apiUrl }: PaddleSettings): PaddleClient {
  const base = apiUrl ?? (isLive ? 'https://api.paddle.com' : 'https://sandbox-api.paddle.com')

  async function call(method: string, url: URL, body?: object): Promise<Answer | null> {
    // The next page of a list is an address that Paddle names. The key goes nowhere else.
    if (url.origin !== new URL(base).origin) throw new ProviderUnavailable('Paddle named a page at another address')
    const init = {
      method,
      redirect: 'error' as const,
      signal: AbortSignal.timeout(TIMEOUT_MS),
      headers: {
        authorization: `Bearer ${apiKey}`,
        'paddle-version': API_VERSION,
        ...(body !== undefined && { 'content-type': 'application/json' }),
      },
      ...(body !== undefined && { body: JSON.stringify(body) }),
    }
    const { status, answer } = await send(url, init)
    if (status === 404) return null
    if (status === 429 || status >= 500) throw new ProviderUnavailable(`Paddle answers ${status}`)
    if (status >= 400) throw new Error(`Paddle refuses ${method} ${url.pathname}: ${status} ${codeOf(answer)}`)
    if (!isJsonObject(answer)) throw new ProviderUnavailable('Paddle answers without JSON')
    return answer as unknown as Answer
  }

  return {
    get: async <T>(path: string) => ((await call('GET', new URL(path, base)))?.data as T | undefined) ?? null,
    async list<T>(path: string, isEnough = (_: readonly T[]) => false) {
      const all: T[] = []
      for (let url: URL | null = new URL(path, base); url !== null; ) {
        const answer: Answer | null = await call('GET', url)
        const page = (answer?.data ?? []) as T[]
        all.push(...page)
        const { has_more, next } = answer?.meta?.pagination ?? {}
        url = has_more === true && next !== undefined && page.length > 0 && !isEnough(page) ? new URL(next) : null
      }
      return all
    },
    async post<T>(path: string, body: object) {
      const answer = await call('POST', new URL(path, base), body)
      if (answer === null) throw new Error(`Paddle has no ${path}`)
      return answer.data as T
    },
  }
}

interface Answer {
  readonly data: unknown
  readonly meta?: { readonly pagination?: { readonly has_more?: boolean; readonly next?: string } }
}

async function send(url: URL, init: RequestInit): Promise<{ status: number; answer: unknown }> {
  try {
    const response = await fetch(url, init)
    const text = await response.text()
    return { status: response.status, answer: parseJson(text) }
  } catch (error) {
    throw new ProviderUnavailable('Paddle does not answer', { cause: error })
  }
}

function parseJson(text: string): unknown {
  try {
    return JSON.parse(text)
  } catch {
    return null
  }
}

function codeOf(answer: unknown): string {
  return isJsonObject(answer) && isJsonObject(answer.error) ? String(answer.error.code) : ''
}
