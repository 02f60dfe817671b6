// Runs the markets of one worker thread.
import { parentPort } from 'node:worker_threads'
import { attacks } from './behaviour.ts'
import { runMarket } from './market.ts'

/** One market to run: the place of the attack in the list, and the seed. */
export interface MarketTask {
  readonly attack: number
  readonly seed: number
}

parentPort!.on('message', ({ attack, seed }: MarketTask) => {
  parentPort!.postMessage(runMarket(seed, attacks[attack]!))
})
