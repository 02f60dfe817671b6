import { setTimeout as delay } from 'node:timers/promises'
import { Client } from '../client.ts'
import { answerJobs } from '../process.ts'
import { atRate, type ServerBehaviour, type Target } from './behaviour.ts'
import { behaviours } from './behaviours.ts'
import { chat, wire } from './clients/send.ts'

export interface AttackJob {
  /** `<party> <name>` */
  readonly id: string
  readonly origin: string
  readonly headers: Record<string, string>
  readonly seconds: number
}

/** How often each event happened: `200: 12, 402: 3`. */
export interface AttackResult {
  readonly events: Record<string, number>
}

/** Runs one behaviour of a client, or the customer of a hostile server, for a number of seconds. */
answerJobs<AttackJob, AttackResult>(async ({ id, origin, headers, seconds }) => {
  const events: Record<string, number> = {}
  const note = (event: string | number) => {
    events[event] = (events[event] ?? 0) + 1
  }
  const end = new AbortController()
  const behaviour = behaviours.find(({ party, name }) => id === `${party} ${name}`)!
  const target: Target = { origin, headers, signal: end.signal, note }
  const running = behaviour.party === 'server' ? useServer(behaviour, target) : behaviour.run(target)
  await delay(seconds * 1000)
  end.abort()
  // Requests that are still waiting for an answer are left behind.
  await Promise.race([running, delay(2_000)])
  return { events }
})

/** Sends the requests of a customer that the hostile server answers. */
async function useServer({ name, load }: ServerBehaviour, target: Target): Promise<void> {
  const request = (stream: boolean) =>
    wire(
      target,
      load.request?.(name, stream) ?? {
        body: chat('Hello', { model: name, max_tokens: 100_000, stream, ...load.body }),
      },
    )
  const requests = load.stream === undefined ? [request(true), request(false)] : [request(load.stream)]
  const client = new Client(target.origin)
  let sent = 0
  let inFlight = 0
  await atRate(load.ratePerS, target.signal, () => {
    if (inFlight >= load.inFlightMax) return
    inFlight++
    let start = ''
    let end = ''
    client.send(requests[sent++ % requests.length]!, {
      onBytes(bytes) {
        if (start.length < 2_000) start += bytes.toString('latin1', 0, 2_000)
        end = bytes.toString('latin1', Math.max(0, bytes.length - 2_000))
      },
      onEnd(status) {
        inFlight--
        const code = /"error":\{.*?"code":"(\w+)"/.exec(start)?.[1] ?? /"error":\{.*?"code":"(\w+)"/.exec(end)?.[1]
        target.note(status === null ? 'cut' : code === undefined ? status : `${status} ${code}`)
      },
    })
  })
  for (let unanswered = inFlight; unanswered > 0; unanswered--) target.note('unanswered')
  client.close()
}
