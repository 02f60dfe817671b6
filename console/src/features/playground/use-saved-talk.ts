import { t } from '@lingui/core/macro'
import { useEffect, useRef, useState } from 'react'
import { randomUuid } from '../../api/random-uuid.ts'
import { useSession } from '../../shell/use-session.ts'
import type { ChatSetup } from './chat-setup.ts'
import { hasPrivateTurn, stoppedNow, type Turn } from './talk.ts'
import { keepTalk } from './talk-store.ts'

/** A tab that is closed loses at most this much of an answer. */
const KEEP_EVERY_MS = 2_000

/** Keeps the talk of the page in the browser, also while answers arrive and when the page is left, unless a turn is private. */
export function useSavedTalk(
  customerId: string,
  { turns, setup, isRunning }: { turns: readonly Turn[]; setup: ChatSetup; isRunning: boolean },
) {
  const { person } = useSession()
  const owner = `${person.id} ${customerId}`
  const [id, setId] = useState(randomUuid)
  const [problem, setProblem] = useState<string | null>(null)
  const keptId = useRef<string | null>(null)

  function keep() {
    const isNew = keptId.current !== id
    if (hasPrivateTurn(turns) || (turns.length === 0 && isNew)) return
    keptId.current = id
    keepTalk({ id, owner, setup, turns: isRunning ? stoppedNow(turns) : turns }).then(
      () => setProblem(null),
      () => setProblem(t`The browser has no room to keep this talk. Delete older ones.`),
    )
  }
  // Timers and the end of the page keep what is shown then.
  const keepShown = useRef(keep)
  keepShown.current = keep

  // Setup alone is no reason to write: a talk that is only read stays where it is in the list.
  useEffect(() => {
    if (!isRunning) keepShown.current()
  }, [turns, isRunning])
  useEffect(() => {
    if (!isRunning) return
    keepShown.current()
    const timer = setInterval(() => keepShown.current(), KEEP_EVERY_MS)
    return () => clearInterval(timer)
  }, [isRunning])
  useEffect(() => () => keepShown.current(), [])

  return {
    id,
    owner,
    problem,
    /** The page shows another talk: a saved one by its id, or a new one. */
    begin(opened: string = randomUuid()) {
      setId(opened)
      setProblem(null)
    },
  }
}
