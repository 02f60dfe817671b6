import { useQueryClient } from '@tanstack/react-query'
import { useEffect, useRef, useState } from 'react'
import { readAgain } from '../../api/query-client.ts'
import { Problem } from '../../api/request.ts'
import { bodyOf, type ChatSetup, type ChosenModel } from './chat-setup.ts'
import { withPlaygroundKey } from './playground-key.ts'
import { type ChatStart, streamChat } from './stream-chat.ts'
import { asPrivate, emptyStep, type Step, type Turn, userMessage, withLastStep, withResults } from './talk.ts'

/** What a person sends. */
export interface Prompt {
  readonly text: string
  readonly images: readonly string[]
}

/** A talk with one model or several at once, which answer side by side. */
export function useTalk(customerId: string) {
  const client = useQueryClient()
  const [turns, setTurns] = useState<readonly Turn[]>([])
  const [problem, setProblem] = useState<unknown>(null)
  const [running, setRunning] = useState(0)
  const abort = useRef(new AbortController())

  // Nobody sees the rest of an answer whose page was left, so it must not be generated and charged.
  useEffect(() => () => abort.current.abort(), [])

  /** Shows the answer of one model while it arrives, as the last step of its answer. Returns how it ended. */
  async function run(chosen: ChosenModel, body: object): Promise<{ readonly step: Step; readonly error?: unknown }> {
    const startedMs = performance.now()
    const { signal } = abort.current
    let step = emptyStep
    let start: ChatStart = { requestId: null, provider: null }
    let firstMs: number | null = null
    const show = (change: Partial<Step>) => {
      step = { ...step, ...change }
      setTurns(before => withLastStep(before, chosen.slot, step))
    }
    const facts = (isStopped: boolean) => ({ firstMs, elapsedMs: performance.now() - startedMs, isStopped })
    const stoppedEnd = () => ({ ...start, usage: null, ...facts(true) })
    const listener = {
      signal,
      onStart(begun: ChatStart) {
        start = begun
        show({ endIfLeft: stoppedEnd() })
      },
      onContent(content: Partial<Step>) {
        firstMs ??= performance.now() - startedMs
        show({ ...content, endIfLeft: stoppedEnd() })
      },
    }
    setRunning(count => count + 1)
    try {
      const end = await withPlaygroundKey(customerId, key => streamChat(key, body, listener))
      show({ end: { ...end, ...facts(false) } })
      return { step }
    } catch (error) {
      if (signal.aborted) {
        // Half a call cannot be answered.
        show({ calls: [], end: stoppedEnd() })
        return { step }
      }
      show({ calls: [], problem: problemShown(error) })
      return { step, error }
    } finally {
      setRunning(count => count - 1)
    }
  }

  async function runAll(runs: readonly ReturnType<typeof run>[]) {
    const outcomes = await Promise.all(runs)
    for (const area of ['credits', 'usage', 'activity', 'keys', 'key-spend'])
      void readAgain(client, { queryKey: [area] })
    return outcomes
  }

  function begin() {
    abort.current = new AbortController()
    setProblem(null)
  }

  /** Sends a prompt to all chosen models. Returns false if no model began to answer: then nothing of it is kept. */
  async function send(setup: ChatSetup, { text, images }: Prompt): Promise<boolean> {
    begin()
    const answers = setup.models.map(chosen => ({ ...chosen, steps: [emptyStep] }))
    const sent = [...turns, { prompt: text, images, answers }]
    setTurns(setup.isPrivate ? asPrivate(sent) : sent)
    const bodies = setup.models.map(chosen => bodyOf(setup, chosen, turns, [userMessage(text, images)]))
    const outcomes = await runAll(setup.models.map((chosen, index) => run(chosen, bodies[index]!)))
    const failed = outcomes.find(({ error }) => error !== undefined)
    const isLost = outcomes.every(({ step, error }) => error !== undefined && step.text === '')
    if (failed === undefined || !isLost) return true
    setTurns(turns)
    setProblem(failed.error)
    return false
  }

  /** Sends the results of a model's calls, and shows how it goes on. */
  async function goOn(setup: ChatSetup, chosen: ChosenModel, results: readonly string[]): Promise<void> {
    begin()
    const answered = withResults(turns, chosen.slot, results)
    const next = setup.isPrivate ? asPrivate(answered) : answered
    setTurns(next)
    await runAll([run(chosen, bodyOf(setup, chosen, next, []))])
  }

  return {
    turns,
    problem,
    isRunning: running > 0,
    send,
    goOn,
    stop: () => abort.current.abort(),
    /** Shows another talk, or none. */
    show(shown: readonly Turn[]) {
      setTurns(shown)
      setProblem(null)
    },
  }
}

function problemShown(error: unknown): NonNullable<Step['problem']> {
  return error instanceof Problem ? error : { message: String(error), requestId: null }
}
