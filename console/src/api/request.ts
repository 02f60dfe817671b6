import { t } from '@lingui/core/macro'
import type { CodedSentence } from '../../../src/base/domain/said.ts'
import { errorText } from '../texts/code-text.ts'

/** An error that the gateway answered with, or no answer at all. */
export class Problem extends Error {
  /** 0: there was no answer. */
  readonly status: number
  /** A code of the table of errors, `offline` without an answer, or `unknown`. */
  readonly code: string
  /** The field at fault. */
  readonly param: string | null
  readonly requestId: string | null
  /** The gateway's message, in English. */
  readonly english: string
  readonly sentences: readonly CodedSentence[]

  constructor(english: string, { status, code, param = null, requestId = null, sentences = [] }: ProblemFacts) {
    super(errorText(code, english, sentences))
    this.status = status
    this.code = code
    this.param = param
    this.requestId = requestId
    this.english = english
    this.sentences = sentences
  }
}

/** Whether the gateway asks for a code. Without a field at fault, the person has to set up a second factor first. */
export function needsCode(error: Error | null): boolean {
  return error instanceof Problem && error.code === 'second_factor_required' && error.param !== null
}

interface ProblemFacts {
  readonly status: number
  readonly code: string
  readonly param?: string | null
  readonly requestId?: string | null
  readonly sentences?: readonly CodedSentence[]
}

/**
 * Sends a request to /console/api and returns the JSON of its answer.
 *
 * @param path below /console/api, with its query
 * @throws Problem; what `fetch` throws, if `options.signal` is aborted
 */
export async function request<T>(method: string, path: string, options: RequestOptions = {}): Promise<T> {
  const { body, signal, headers = {} } = options
  let response: Response
  try {
    response = await fetch(`/console/api/${path}`, {
      method,
      headers: { ...(body !== undefined && { 'content-type': 'application/json' }), ...headers },
      ...(body !== undefined && { body: JSON.stringify(body) }),
      ...(signal && { signal }),
    })
  } catch (error) {
    if (signal?.aborted) throw error
    throw noAnswer()
  }
  if (!response.ok) throw await problemOf(response)
  return (await response.json()) as T
}

/** Whether a request failed because no gateway answers, or one that starts or stops. */
export function isAway(error: unknown): boolean {
  return error instanceof Problem && (error.status === 0 || error.status === 503)
}

/** The error of a request that no gateway has answered. */
export function noAnswer(): Problem {
  const message = t`The gateway does not answer. Check your connection; the page tries again.`
  return new Problem(message, { status: 0, code: 'offline' })
}

export interface RequestOptions {
  readonly body?: unknown
  readonly signal?: AbortSignal
  readonly headers?: Readonly<Record<string, string>>
}

/** Reads the error of an answer that is not ok. */
export async function problemOf(response: Response): Promise<Problem> {
  const requestId = response.headers.get('x-request-id')
  const body = (await response.json().catch(() => null)) as { error?: Partial<ApiErrorBody> } | null
  // A proxy answers so in place of a gateway that restarts.
  if (body?.error === undefined && [502, 503, 504].includes(response.status)) return noAnswer()
  const status = response.status
  const { message = t`The gateway answered ${status}.`, message_codes = [], code, param } = body?.error ?? {}
  return new Problem(message, {
    status,
    code: code ?? 'unknown',
    sentences: message_codes,
    param: param ?? null,
    requestId,
  })
}

interface ApiErrorBody {
  readonly message: string
  readonly message_codes?: readonly CodedSentence[]
  readonly code: string
  readonly param: string | null
}

/** Writes a query string with its question mark. Leaves out fields without a value. */
export function queryText(fields: Readonly<Record<string, string | number | boolean | undefined | null>>): string {
  const set = Object.entries(fields).filter(([, value]) => value !== undefined && value !== null && value !== '')
  return set.length === 0 ? '' : `?${new URLSearchParams(set.map(([name, value]) => [name, String(value)]))}`
}
