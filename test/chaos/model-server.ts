import { setTimeout as delay } from 'node:timers/promises'
import {
  type Behaviour,
  completion,
  type ScriptedUpstream,
  sse,
  startScriptedUpstream,
  streamEvents,
  usageOf,
} from '../harness/scripted-upstream.ts'

/** The instructions of a request to the model server, sent as the text of its message. */
export interface Task {
  /** Number of the request among those of its customer. */
  readonly tag: number
  /** The usage to report. */
  readonly outputTokens: number
  readonly customerId: string
  readonly words: number
  /** Delay before each word of a stream, or before a non-streamed answer. */
  readonly gapMs: number
}

export interface ModelServer {
  readonly baseUrl: string
  /** The tags of a customer's requests that arrived here. A retried request counts once. */
  tagsOf(customerId: string): ReadonlySet<number>
  close(): Promise<void>
}

/** Reported for every prompt. Below the bound that the gateway computes. */
export const PROMPT_TOKENS = 20

/** Starts a model server that follows the instructions in each request. */
export async function startModelServer(): Promise<ModelServer> {
  const upstream: ScriptedUpstream = await startScriptedUpstream({ models: [] })
  const tags = new Map<string, Set<number>>()
  upstream.always(async (request, response) => {
    const task = taskOf(String(request.body.messages?.at(-1)?.content))
    const known = tags.get(task.customerId) ?? new Set()
    tags.set(task.customerId, known.add(task.tag))
    await answering(task, request.body.stream === true)(request, response)
  })
  return {
    baseUrl: upstream.baseUrl,
    tagsOf: customerId => tags.get(customerId) ?? new Set(),
    close: () => upstream.close(),
  }
}

export function textOf(task: Task): string {
  return `${JSON.stringify(task)} ${'Say something about shunting. '.repeat(4)}`
}

function taskOf(text: string): Task {
  return JSON.parse(text.slice(0, text.indexOf('}') + 1))
}

function answering(task: Task, stream: boolean): Behaviour {
  const pieces = Array.from({ length: task.words }, (_, index) => ` word${index}`)
  const answer = { pieces, usage: usageOf(PROMPT_TOKENS, task.outputTokens) }
  if (stream) {
    return sse(streamEvents(answer), { beforeEvent: () => (task.gapMs > 0 ? delay(task.gapMs) : undefined) })
  }
  return async (_request, response) => {
    if (task.gapMs > 0) await delay(task.gapMs)
    response.writeHead(200, { 'content-type': 'application/json' })
    response.end(JSON.stringify(completion(answer)))
  }
}
