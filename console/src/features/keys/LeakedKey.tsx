import { Button, Modal, Textarea } from '@mantine/core'
import { useState } from 'react'
import type { Key, KeyFoundByItself } from '#api/keys.ts'
import { useWrite } from '../../api/use-write.ts'
import { chargeText } from '../../format/usd-text.ts'
import { FormProblem } from '../../parts/FormProblem.tsx'
import dialogStyles from '../../parts/parts.module.css'
import { useCustomerId } from '../../shell/use-session.ts'
import { keyTexts as texts } from './key-texts.ts'
import { RotateKey } from './RotateKey.tsx'

const WHOLE_KEY = /sk-sy-[0-9A-Za-z]{38}/

/** Finds a key by a text with it, and stops it. The pasted text leaves the page with the request only. */
export function LeakedKey({ onShow, onClose }: { onShow: (key: Key) => void; onClose: () => void }) {
  const customerId = useCustomerId()
  const [text, setText] = useState('')
  const [isReplacing, setReplacing] = useState(false)
  const find = useWrite<string, KeyFoundByItself>(
    key => ({ method: 'POST', path: `customers/${customerId}/keys/find`, body: { key } }),
    { areas: [], onDone: () => setText(''), showsError: true },
  )
  const found = find.data
  if (found !== undefined && isReplacing) return <RotateKey rotated={found} hasLeaked onClose={onClose} />
  return (
    <Modal opened onClose={onClose} title={texts.leakedTitle}>
      {found === undefined ? (
        <form
          className={dialogStyles.dialog}
          onSubmit={event => {
            event.preventDefault()
            find.mutate(text)
          }}
        >
          <p>{texts.leakedText}</p>
          <Textarea
            label={texts.leakedField}
            autoComplete="off"
            spellCheck={false}
            required
            maxRows={6}
            value={text}
            onChange={event => {
              const typed = event.currentTarget.value
              setText(typed)
              // A pasted key is whole.
              if (WHOLE_KEY.test(typed)) find.mutate(typed)
            }}
            data-autofocus
          />
          <FormProblem error={find.error} />
          <Button type="submit" loading={find.isPending}>
            {texts.find}
          </Button>
        </form>
      ) : (
        <FoundKey
          found={found}
          onReplace={() => setReplacing(true)}
          onShow={() => onShow(found)}
          onAgain={find.reset}
          onClose={onClose}
        />
      )}
    </Modal>
  )
}

function FoundKey({
  found,
  onReplace,
  onShow,
  onAgain,
  onClose,
}: {
  found: KeyFoundByItself
  onReplace: () => void
  onShow: () => void
  onAgain: () => void
  onClose: () => void
}) {
  const customerId = useCustomerId()
  const { id, name, hint, former_key, is_former, usage } = found
  const stop = useWrite<void, Key>(
    () => ({
      method: 'PATCH',
      path: `customers/${customerId}/keys/${id}`,
      body: is_former ? { former_key: null } : { paused: true },
    }),
    { areas: ['keys', 'key-spend'], showsError: true },
  )
  const isPaused = !is_former && (stop.isSuccess || found.paused_at !== null)
  const isDone = isPaused || stop.isSuccess
  return (
    <div className={dialogStyles.dialog}>
      <p role="status">
        {is_former ? texts.isFormerKey(name, former_key?.hint ?? '') : texts.isKey(name, hint)}{' '}
        {isPaused && texts.isPausedNow} {is_former && stop.isSuccess && texts.formerHasEnded}
      </p>
      <p>{texts.hasSpent(chargeText(usage.week_usd), chargeText(usage.total_usd))}</p>
      <p>{is_former ? texts.endFormerText : isPaused ? texts.replacePausedText : texts.stopText}</p>
      <FormProblem error={stop.error} />
      <div className={dialogStyles.actions}>
        {is_former ? (
          !isDone && (
            <Button variant="danger" loading={stop.isPending} onClick={() => stop.mutate()} data-autofocus>
              {texts.endFormer}
            </Button>
          )
        ) : (
          <Button variant="danger" onClick={onReplace} data-autofocus>
            {texts.replaceNow}
          </Button>
        )}
        {!is_former && !isPaused && (
          <Button variant="default" loading={stop.isPending} onClick={() => stop.mutate()}>
            {texts.pauseOnly}
          </Button>
        )}
        <Button variant="default" onClick={onShow}>
          {texts.goTo}
        </Button>
        <Button variant="default" onClick={isDone ? onClose : onAgain}>
          {isDone ? texts.close : texts.findAnother}
        </Button>
      </div>
    </div>
  )
}
