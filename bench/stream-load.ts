import { Client, requestText } from './client.ts'
import { percentile } from './percentile.ts'
import { answerJobs } from './process.ts'
import { readRssMb, startCpuWatch } from './process-usage.ts'
import { microsSince, monotonicMicros, stampDigits, stampMark } from './stamp.ts'
import { createTally, type Tally } from './tally.ts'

export type StreamJob = {
  url: string
  headers: Record<string, string>
  body: string
  /** Number of concurrent streams. When one ends, the next one starts. */
  streams: number
  /** The first streams start evenly over this time, which also spreads their chunks evenly. */
  rampMs: number
  /** Duration of the measurement, which begins when all streams are open. */
  measureMs: number
  chunksPerStream: number
  /** The dialect of the answers. Default: chat. */
  dialect?: ClientDialectName
  /** The process whose CPU time and memory are measured; null for none. */
  pid: number | null
}

/** The dialects that the benchmark can read. */
export type ClientDialectName = 'chat' | 'responses' | 'messages'

export type StreamResult = Tally & {
  /** Number of concurrent streams. */
  streams: number
  chunks: number
  measuredMs: number
  delayP50Ms: number
  delayP99Ms: number
  cpuUsPerChunk: number | null
  cpuShare: number | null
  /** The highest sample while all streams were open. */
  rssMb: number | null
  /** Before the first stream. */
  rssIdleMb: number | null
  /** The median while all streams were open. */
  rssOpenMb: number | null
}

answerJobs<StreamJob, StreamResult>(async job => {
  const client = new Client(job.url)
  const request = requestText(job.url, job.headers, job.body)
  let measuring = false
  let draining = false
  const delaysMs: number[] = []
  const outcome = { ...createTally(), open: 0 }
  const drained = Promise.withResolvers<void>()

  const openStream = () => {
    outcome.sent++
    outcome.open++
    const reader = new StampReader(streamMarks[job.dialect ?? 'chat'])
    client.send(request, {
      onBytes(bytes) {
        const nowMicros = monotonicMicros()
        reader.read(bytes, digits => {
          if (measuring) delaysMs.push(microsSince(digits, nowMicros) / 1000)
        })
      },
      onEnd: status => closeStream(status === 200 && reader.done && reader.stamps === job.chunksPerStream),
    })
  }
  const closeStream = (isWhole: boolean) => {
    outcome.open--
    if (isWhole) outcome.ok++
    else outcome.failed++
    // Do not replace a broken stream: a gateway that refuses everything would be flooded.
    if (!draining && isWhole) openStream()
    if (outcome.open === 0) drained.resolve()
  }

  const rssIdleMb = job.pid === null ? null : readRssMb(job.pid)
  await spreadEvenly(job.streams, job.rampMs, openStream)
  measuring = true
  const watch = watchProcess(job.pid)
  await new Promise(resolve => setTimeout(resolve, job.measureMs))
  measuring = false
  const { cpuMicros, elapsedMicros, rssesMb } = watch.stop()
  draining = true
  const giveUp = setTimeout(drained.resolve, drainMsMax)
  if (outcome.open > 0) await drained.promise
  clearTimeout(giveUp)
  client.close()

  const sorted = Float64Array.from(delaysMs).sort()
  return {
    streams: job.streams,
    chunks: sorted.length,
    measuredMs: elapsedMicros / 1000,
    delayP50Ms: percentile(sorted, 0.5),
    delayP99Ms: percentile(sorted, 0.99),
    cpuUsPerChunk: cpuMicros === null || sorted.length === 0 ? null : cpuMicros / sorted.length,
    cpuShare: cpuMicros === null ? null : cpuMicros / elapsedMicros,
    rssMb: rssesMb.at(-1) ?? null,
    rssIdleMb,
    rssOpenMb: rssesMb.length === 0 ? null : percentile(rssesMb, 0.5),
    sent: outcome.sent,
    ok: outcome.ok,
    failed: outcome.failed + outcome.open,
  }
})

// A stream takes 2 or 3 s; streams open after this time do not end.
const drainMsMax = 15_000

type StreamMarks = {
  /** What a text begins with, up to and including the mark of a stamp. */
  text: string
  /** What a complete stream has at its end. */
  done: string
}

const streamMarks: Record<ClientDialectName, StreamMarks> = {
  chat: { text: stampMark, done: 'data: [DONE]' },
  // The last events repeat the whole text.
  responses: { text: `"delta":"${stampMark}`, done: 'event: response.completed' },
  messages: { text: stampMark, done: 'event: message_stop' },
}

/** Finds the upstream's time stamps in the bytes of one stream, also when a stamp is split over several reads. */
class StampReader {
  stamps = 0
  done = false
  readonly #marks: StreamMarks
  #rest: Buffer | null = null

  constructor(marks: StreamMarks) {
    this.#marks = marks
  }

  read(bytes: Buffer, onStamp: (digits: string) => void): void {
    const { text, done } = this.#marks
    const all = this.#rest === null ? bytes : Buffer.concat([this.#rest, bytes])
    let readTo = all.lastIndexOf('\n') + 1
    let at = all.indexOf(text)
    while (at !== -1 && at + text.length + stampDigits <= all.length) {
      this.stamps++
      const end = at + text.length + stampDigits
      onStamp(all.toString('latin1', at + text.length, end))
      readTo = Math.max(readTo, end)
      at = all.indexOf(text, end)
    }
    if (all.includes(done)) this.done = true
    // Copied because the client reuses its buffer.
    this.#rest = readTo < all.length ? Buffer.from(all.subarray(readTo)) : null
  }
}

async function spreadEvenly(count: number, overMs: number, start: () => void): Promise<void> {
  const startedMs = performance.now()
  let begun = 0
  while (begun < count) {
    const due = Math.min(count, Math.ceil(((performance.now() - startedMs) / overMs) * count))
    for (; begun < due; begun++) start()
    await new Promise(resolve => setTimeout(resolve, 1))
  }
}

function watchProcess(pid: number | null) {
  const startedMicros = monotonicMicros()
  const cpuMicrosUsed = startCpuWatch(pid)
  const rssesMb: number[] = []
  const sample = () => {
    const rssMb = pid === null ? null : readRssMb(pid)
    if (rssMb !== null) rssesMb.push(rssMb)
  }
  sample()
  const sampling = setInterval(sample, 200)
  return {
    stop() {
      clearInterval(sampling)
      return {
        cpuMicros: cpuMicrosUsed(),
        elapsedMicros: monotonicMicros() - startedMicros,
        rssesMb: rssesMb.sort((a, b) => a - b),
      }
    },
  }
}
