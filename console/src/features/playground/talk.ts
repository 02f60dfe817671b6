import { t } from '@lingui/core/macro'
import type { ChatContent, ChatEnd } from './stream-chat.ts'

/** A talk: what the person sent, and what each chosen model answered. */
export interface Turn {
  readonly prompt: string
  /** As data: URLs. */
  readonly images: readonly string[]
  readonly answers: readonly Answer[]
  /** Sent in privacy mode: the browser does not keep the talk. */
  readonly isPrivate?: true
}

/** The answer of one model to one prompt. It has a step more after each round of tools. */
export interface Answer {
  /** The place of the model in the comparison: its earlier answers have the same. */
  readonly slot: number
  readonly model: string
  readonly steps: readonly Step[]
}

export interface Step extends ChatContent {
  /** What the person answered to each call, in the order of the calls. */
  readonly results: readonly string[]
  /** Of a step that has ended. */
  readonly end?: AnswerFacts
  /** Of a step that has begun: its end, if the page is left now. */
  readonly endIfLeft?: AnswerFacts
  /** Why it ended early. */
  readonly problem?: { readonly message: string; readonly requestId: string | null }
}

export interface AnswerFacts extends ChatEnd {
  /** Null if nothing came. */
  readonly firstMs: number | null
  readonly elapsedMs: number
  readonly isStopped: boolean
}

export const emptyStep: Step = { text: '', reasoning: '', calls: [], results: [] }

/** A message of OpenAI's chat API. */
export interface ChatMessage {
  readonly role: 'system' | 'user' | 'assistant' | 'tool'
  readonly content: string | readonly object[] | null
  readonly [field: string]: unknown
}

export function userMessage(prompt: string, images: readonly string[]): ChatMessage {
  if (images.length === 0) return { role: 'user', content: prompt }
  const parts = images.map(url => ({ type: 'image_url', image_url: { url } }))
  return { role: 'user', content: [...(prompt.trim() === '' ? [] : [{ type: 'text', text: prompt }]), ...parts] }
}

/**
 * Returns the messages of one model's talk. A model that joined later goes on from the answers of the first one. A prompt
 * without an answer is left out, because some models refuse two messages of a person in a row.
 */
export function messagesOf(turns: readonly Turn[], slot: number): ChatMessage[] {
  return turns.flatMap(({ prompt, images, answers }) => {
    const answer = answers.find(each => each.slot === slot) ?? answers[0]
    const steps = answer?.steps.filter(hasAnswer) ?? []
    return steps.length === 0 ? [] : [userMessage(prompt, images), ...steps.flatMap(stepMessages)]
  })
}

function hasAnswer({ text, calls }: Step): boolean {
  return text !== '' || calls.length > 0
}

function stepMessages({ text, calls, results }: Step): ChatMessage[] {
  if (calls.length === 0) return [{ role: 'assistant', content: text }]
  const called = calls.map(call => ({
    id: call.id,
    type: 'function',
    function: { name: call.name, arguments: call.arguments },
  }))
  return [
    { role: 'assistant', content: text === '' ? null : text, tool_calls: called },
    ...calls.map(({ id }, index): ChatMessage => ({ role: 'tool', tool_call_id: id, content: results[index] ?? '' })),
  ]
}

/** Whether a model waits for the results of its calls. */
export function waitsForResults({ steps }: Answer): boolean {
  const last = steps.at(-1)
  return last?.end !== undefined && last.calls.length > 0
}

/** Returns the turns with another last step of one model's answer to the last prompt. */
export function withLastStep(turns: readonly Turn[], slot: number, step: Step): readonly Turn[] {
  return changeAnswer(turns, slot, answer => ({ ...answer, steps: answer.steps.with(-1, step) }))
}

/** Returns the turns as they are if the page is left now: what still arrives has stopped. */
export function stoppedNow(turns: readonly Turn[]): readonly Turn[] {
  const last = turns.at(-1)
  if (last === undefined) return turns
  const answers = last.answers.map(answer => ({
    ...answer,
    steps: answer.steps.with(-1, stopped(answer.steps.at(-1))),
  }))
  return turns.with(-1, { ...last, answers })
}

/** Half a call cannot be answered. */
function stopped(step: Step = emptyStep): Step {
  if (step.end !== undefined || step.problem !== undefined) return step
  return { ...step, calls: [], end: step.endIfLeft ?? notBegun }
}

const notBegun: AnswerFacts = {
  ...{ requestId: null, provider: null, usage: null },
  ...{ firstMs: null, elapsedMs: 0, isStopped: true },
}

/** Returns the turns with the results of the calls in the last step, and a new step after it. */
export function withResults(turns: readonly Turn[], slot: number, results: readonly string[]): readonly Turn[] {
  return changeAnswer(turns, slot, answer => ({
    ...answer,
    steps: [...answer.steps.with(-1, { ...answer.steps.at(-1)!, results }), emptyStep],
  }))
}

/** Whether the browser keeps nothing of the talk. */
export function hasPrivateTurn(turns: readonly Turn[]): boolean {
  return turns.some(({ isPrivate }) => isPrivate)
}

/** Returns the turns with the last one marked as private. */
export function asPrivate(turns: readonly Turn[]): readonly Turn[] {
  const last = turns.at(-1)
  return last === undefined ? turns : turns.with(-1, { ...last, isPrivate: true })
}

function changeAnswer(turns: readonly Turn[], slot: number, change: (answer: Answer) => Answer): readonly Turn[] {
  const last = turns.at(-1)
  if (last === undefined) return turns
  return turns.with(-1, { ...last, answers: last.answers.map(each => (each.slot === slot ? change(each) : each)) })
}

const TITLE_CHARACTERS = 60

/** The first prompt, shortened. */
export function titleOf([first]: readonly Turn[]): string {
  const text = first?.prompt.trim().replace(/\s+/g, ' ') ?? ''
  if (text === '') return t`Images`
  return text.length > TITLE_CHARACTERS ? `${text.slice(0, TITLE_CHARACTERS - 1)}…` : text
}
