import { t } from '@lingui/core/macro'
import { useEffect, useState } from 'react'
import { randomUuid } from '../../api/random-uuid.ts'
import { useSession } from '../../shell/use-session.ts'
import type { ChatSetup } from './chat-setup.ts'
import { type Turn, titleOf } from './talk.ts'
import { talkStore } from './talk-store.ts'

/** Keeps the talk of the page in the browser each time that its answers have ended, unless a turn is private. */
export function useSavedTalk(
  customerId: string,
  { turns, setup, isRunning }: { turns: readonly Turn[]; setup: ChatSetup; isRunning: boolean },
) {
  const { person } = useSession()
  const owner = `${person.id} ${customerId}`
  const [id, setId] = useState(randomUuid)
  const [problem, setProblem] = useState<string | null>(null)

  // Setup alone is no reason to write: a talk that is only read stays where it is in the list.
  useEffect(() => {
    if (isRunning || turns.length === 0 || turns.some(({ isPrivate }) => isPrivate)) return
    const changedAt = new Date().toISOString()
    const write = async () => {
      const store = await talkStore()
      const known = await store.read(id)
      if (known !== undefined && JSON.stringify(known.turns) === JSON.stringify(turns)) return
      await store.write({ id, owner, title: known?.title ?? titleOf(turns), changedAt, setup, turns })
    }
    write().then(
      () => setProblem(null),
      () => setProblem(t`The browser has no room to keep this talk. Delete older ones.`),
    )
  }, [turns, isRunning])

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
