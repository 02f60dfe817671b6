import { parentPort } from 'node:worker_threads'
import { lowerThreadPriority } from '../../base/runtime/lower-thread-priority.ts'
import { redactTexts } from './redact-texts.ts'
import type { FromThread, ToThread } from './redactor.ts'

// Program of the thread that redacts the texts of one request after another for `Redactor`, which sends the next one after the
// answer. An error ends the thread: that request is not recorded, and the next one starts a new thread.

parentPort?.on('message', async (texts: ToThread) => {
  parentPort?.postMessage((await redactTexts(texts)) satisfies FromThread)
})
if (process.platform === 'linux') lowerThreadPriority(0)
