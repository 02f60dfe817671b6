import { setTimeout as delay } from 'node:timers/promises'
import { answerJobs } from '../process.ts'
import { behaviours } from './behaviours.ts'

export type AttackJob = { name: string; origin: string; headers: Record<string, string>; seconds: number }

/** How often each event happened: `200: 12, 402: 3`. */
export type AttackResult = { events: Record<string, number> }

/** Runs one behaviour for a number of seconds. */
answerJobs<AttackJob, AttackResult>(async ({ name, origin, headers, seconds }) => {
  const events: Record<string, number> = {}
  const note = (event: string | number) => {
    events[event] = (events[event] ?? 0) + 1
  }
  const end = new AbortController()
  const { run } = behaviours.find(behaviour => behaviour.name === name)!
  const running = run({ origin, headers, signal: end.signal, note })
  await delay(seconds * 1000)
  end.abort()
  // Requests that are still waiting for an answer are left behind.
  await Promise.race([running, delay(5_000)])
  return { events }
})
