import { parentPort } from 'node:worker_threads'
import { lowerThreadPriority } from '../../base/runtime/lower-thread-priority.ts'
import { redactText } from './redact-text.ts'
import type { FromThread, ToThread } from './redactor.ts'

// Program of the thread that redacts texts for `Redactor`, one request after another. An error ends the thread: what it had is not
// recorded, and the next text starts a new one.

let last: Promise<unknown> = Promise.resolve()

parentPort?.on('message', (request: ToThread) => {
  last = last.then(() => answer(request))
})
if (process.platform === 'linux') lowerThreadPriority(0)

async function answer({ id, texts }: ToThread): Promise<void> {
  const redacted: string[] = []
  let redactions = 0
  for (const text of texts) {
    const each = await redactText(text)
    redacted.push(each.text)
    redactions += each.redactions
  }
  parentPort?.postMessage({ id, texts: redacted, redactions } satisfies FromThread)
}
