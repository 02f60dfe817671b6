import { closeSync, fstatSync, mkdirSync, openSync, statSync } from 'node:fs'
import { dirname } from 'node:path'
import { destination } from 'pino'
import type { Caller } from '../base/domain/caller.ts'
import type { ErrorCode } from '../base/domain/errors.ts'
import { usdText } from '../base/domain/money.ts'
import type { Log } from '../base/runtime/log.ts'
import type { Clock } from '../base/runtime/scheduler.ts'
import type { Settlement } from '../money/ledger/settlement/settlement.ts'

export interface AccessLogSettings {
  readonly format: 'off' | 'json' | 'short'
  /** How many of a hundred requests without an error get a line. Those with an error always get one. */
  readonly samplePercent: number
  /** Null: standard output. */
  readonly file: string | null
}

/** A generation request that has ended, whether it was settled or refused before. */
export interface EndedRequest {
  readonly requestId: string
  /** Null: the request has no trace. */
  readonly traceId: string | null
  readonly path: string
  /** Undefined: without a valid key. */
  readonly caller: Caller | undefined
  readonly status: number
  /** Null: without an error. */
  readonly code: ErrorCode | null
  readonly elapsedMs: number
}

/** One line for each generation request. It never has prompts, answers, keys or addresses. */
export interface AccessLog {
  /** Call it first, and `ended` last. */
  begun(requestId: string): void
  /** Notes what a request cost and which server answered. Does nothing for one that has not begun here. */
  settled(settlement: Settlement): void
  ended(request: EndedRequest): void
  /** Writes what waits, and closes the file. */
  close(): void
}

export interface AccessLogDeps {
  readonly settings: AccessLogSettings
  readonly clock: Clock
  /** Uniform in [0, 1). */
  readonly random: () => number
  readonly log: Pick<Log, 'warn'>
}

/** Opens the access log; null when it is off. Throws an Error for the operator when its file cannot be written. */
export function openAccessLog({ settings, clock, random, log }: AccessLogDeps): AccessLog | null {
  const { format, samplePercent, file } = settings
  if (format === 'off') return null
  const write = openLines(file, clock, log)
  const lineOf = format === 'json' ? jsonLine : shortLine
  const settlements = new Map<string, Settlement | undefined>()
  return {
    begun: requestId => void settlements.set(requestId, undefined),
    settled(settlement) {
      if (settlements.has(settlement.requestId)) settlements.set(settlement.requestId, settlement)
    },
    ended(request) {
      const settlement = settlements.get(request.requestId)
      settlements.delete(request.requestId)
      if (request.code === null && random() * 100 >= samplePercent) return
      write.line(lineOf(factsOf(request, settlement, clock.epochMs())))
    },
    close: write.close,
  }
}

/** The facts of a line in their order. Null: unknown, or none. */
function factsOf(
  { requestId, traceId, path, caller, status, code, elapsedMs }: EndedRequest,
  settled: Settlement | undefined,
  nowMs: number,
) {
  return {
    time: new Date(nowMs).toISOString(),
    id: requestId,
    status,
    code,
    path,
    customer: caller?.customerId ?? null,
    key: caller?.keyId ?? null,
    label: settled?.label ?? null,
    model: settled?.modelId ?? null,
    server: settled?.endpointId ?? null,
    provider: settled === undefined || settled.provider === 'none' ? null : settled.provider,
    hoster: settled?.hosterId ?? null,
    outcome: settled?.outcome ?? null,
    attempts: settled?.attempts.length ?? 0,
    input_tokens: settled?.inputTokens ?? 0,
    output_tokens: settled?.outputTokens ?? 0,
    cost_usd: usdText(settled?.costNanos ?? 0n),
    first_token_ms: settled?.firstTokenMs ?? null,
    duration_ms: Math.round(elapsedMs),
    trace: traceId,
  }
}

type Facts = ReturnType<typeof factsOf>

const jsonLine = (facts: Facts) => JSON.stringify(facts)

/** `2026-11-29T12:00:00.000Z 200 812ms /v1/chat/completions model@server 31+154 0.000017 customer key id` */
function shortLine(facts: Facts): string {
  const { time, status, code, duration_ms, path, model, server, input_tokens, output_tokens, cost_usd } = facts
  const tokens = `${input_tokens}+${output_tokens}`
  const answered = `${model ?? '-'}@${server ?? '-'}`
  const who = `${facts.customer ?? '-'} ${facts.key ?? '-'} ${facts.id}`
  // The names of models and servers have no control characters, but may have spaces.
  return `${time} ${status}${code === null ? '' : `/${code}`} ${duration_ms}ms ${path} ${answered.replaceAll(' ', '_')} ${tokens} ${cost_usd} ${who}`
}

const ROTATION_CHECK_MS = 1_000

/** The lines name customers. */
const FILE_MODE = 0o600

/** Writes lines to a file, or to standard output. A file that was moved away, as logrotate does, is made again. */
function openLines(file: string | null, clock: Clock, log: Pick<Log, 'warn'>) {
  if (file !== null) requireWritable(file)
  let hasFailed = false
  const noteFailure = (error: unknown) => {
    if (!hasFailed) log.warn({ err: error, file }, 'lines of the access log cannot be written; they are lost')
    hasFailed = true
  }
  const open = () => {
    const opened = destination({ dest: file ?? 1, sync: false, mode: FILE_MODE, maxLength: WAITING_BYTES_MAX })
    opened.on('error', noteFailure)
    opened.on('drain', () => {
      hasFailed = false
    })
    return opened
  }
  let stream = open()
  let checkedMs = clock.monotonicMs()
  return {
    line(text: string): void {
      const nowMs = clock.monotonicMs()
      if (file !== null && nowMs - checkedMs >= ROTATION_CHECK_MS) {
        checkedMs = nowMs
        try {
          if (isMoved(file, stream)) {
            requireWritable(file)
            stream.end()
            stream = open()
          }
        } catch (error) {
          noteFailure(error)
        }
      }
      stream.write(`${text}\n`)
    },
    close: () => stream.end(),
  }
}

/** Lines that wait for a slow disk; further ones are dropped. */
const WAITING_BYTES_MAX = 8 * 1024 * 1024

function requireWritable(file: string): void {
  try {
    mkdirSync(dirname(file), { recursive: true })
    closeSync(openSync(file, 'a', FILE_MODE))
  } catch (error) {
    const { message } = error as Error
    throw new Error(`The access log cannot be written: ${message}. Set access_log.file to another file.`)
  }
}

function isMoved(file: string, stream: object): boolean {
  const { fd } = stream as { readonly fd: number }
  if (fd < 0) return false
  return statSync(file, { throwIfNoEntry: false })?.ino !== fstatSync(fd).ino
}
