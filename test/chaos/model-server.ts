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

/** What a request of the chaos tests asks of the model server. It travels as the text of its message. */
export interface Task {
  /** One for each request of a customer. */
  readonly tag: number
  /** Reported as used. */
  readonly outputTokens: number
  readonly customerId: string
  readonly words: number
  /** Before each word of a stream, and before a whole answer. */
  readonly gapMs: number
}

export interface ModelServer {
  readonly baseUrl: string
  /** The tags of a customer's requests that were sent here, each once however often it was tried. */
  tagsOf(customerId: string): ReadonlySet<number>
  close(): Promise<void>
}

/** Reported for every prompt, whatever its length: below the bound that the gateway computes. */
export const PROMPT_TOKENS = 20

/** A model server that does what the request's text tells it and reports the usage it names. */
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
