import { Button, Modal, TextInput } from '@mantine/core'
import { useState } from 'react'
import type { Key } from '#api/keys.ts'
import { useWrite } from '../../api/use-write.ts'
import { FormProblem } from '../../parts/FormProblem.tsx'
import dialogStyles from '../../parts/parts.module.css'
import { useCustomerId } from '../../shell/use-session.ts'
import { keyTexts as texts } from './key-texts.ts'

const WHOLE_KEY = /^sk-sy-[0-9A-Za-z]{38}$/

/** Finds a key by itself, and stops it. The pasted text leaves the page with the request only. */
export function LeakedKey({ onShow, onClose }: { onShow: (key: Key) => void; onClose: () => void }) {
  const customerId = useCustomerId()
  const [text, setText] = useState('')
  const find = useWrite<string, Key>(
    key => ({ method: 'POST', path: `customers/${customerId}/keys/find`, body: { key } }),
    { areas: [], onDone: () => setText(''), showsError: true },
  )
  const found = find.data
  const pause = useWrite<Key, Key>(
    ({ id }) => ({ method: 'PATCH', path: `customers/${customerId}/keys/${id}`, body: { paused: true } }),
    { areas: ['keys', 'key-spend'], done: (_, { name }) => texts.pausedDone(name), showsError: true },
  )
  const isPaused = pause.isSuccess || (found !== undefined && found.paused_at !== null)
  return (
    <Modal opened onClose={onClose} title={texts.leakedTitle}>
      <form
        className={dialogStyles.dialog}
        onSubmit={event => {
          event.preventDefault()
          if (found === undefined) find.mutate(text.trim())
        }}
      >
        {found === undefined ? (
          <>
            <p>{texts.leakedText}</p>
            <TextInput
              label={texts.leakedField}
              autoComplete="off"
              spellCheck={false}
              required
              value={text}
              onChange={event => {
                const typed = event.currentTarget.value
                setText(typed)
                // A pasted key is whole.
                if (WHOLE_KEY.test(typed.trim())) find.mutate(typed.trim())
              }}
              data-autofocus
            />
            <FormProblem error={find.error} />
            <Button type="submit" loading={find.isPending}>
              {texts.find}
            </Button>
          </>
        ) : (
          <>
            <p role="status">
              {texts.isKey(found.name, found.hint)} {isPaused && texts.isPausedNow}
            </p>
            <FormProblem error={pause.error} />
            <div className={dialogStyles.actions}>
              {!isPaused && (
                <Button variant="danger" loading={pause.isPending} onClick={() => pause.mutate(found)} data-autofocus>
                  {texts.stopNow}
                </Button>
              )}
              <Button variant="default" onClick={() => onShow(found)}>
                {texts.goTo}
              </Button>
              <Button variant="default" onClick={isPaused ? onClose : find.reset}>
                {isPaused ? texts.close : texts.findAnother}
              </Button>
            </div>
          </>
        )}
      </form>
    </Modal>
  )
}
