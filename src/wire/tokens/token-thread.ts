import { parentPort } from 'node:worker_threads'
import { lowerThreadPriority } from '../../base/runtime/lower-thread-priority.ts'
import { TextMeasure } from './measure-text.ts'
import type { FromThread, ToThread } from './token-counter.ts'
import { tokenizer } from './tokenizer.ts'

// Program of the thread that measures long texts for `TokenCounter`.

/** 8,000 characters: less than 20 ms. After that the next text has its turn, and messages are read. */
const SLICES_PER_TURN = 16

const measures = new Map<number, TextMeasure>()

parentPort!.on('message', ({ id, text }: ToThread) => {
  if (text === undefined) measures.delete(id)
  else {
    measures.set(id, new TextMeasure(text))
    if (measures.size === 1) setImmediate(takeTurns)
  }
})
if (process.platform === 'linux') lowerThreadPriority(0)
tokenizer()

/** Measures a part of each text, so that a long one delays the others little. */
function takeTurns(): void {
  for (const [id, measure] of measures) {
    const length = measure.advance(SLICES_PER_TURN)
    if (length === null) continue
    measures.delete(id)
    parentPort!.postMessage({ id, length } satisfies FromThread)
  }
  if (measures.size > 0) setImmediate(takeTurns)
}
