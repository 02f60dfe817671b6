import { endOfTurn } from '../../base/runtime/end-of-turn.ts'

/**
 * Calls back once this process has read everything that its sockets had received when this function was called.
 * That takes up to two turns: the poll of the current turn may have begun before the last bytes arrived.
 */
export function afterNextPoll(callBack: () => void): void {
  endOfTurn(() => endOfTurn(callBack))
}
