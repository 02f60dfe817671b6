import { Button, Modal, TextInput } from '@mantine/core'
import { type ReactNode, useState } from 'react'
import { useWrite } from '../../api/use-write.ts'
import { FormProblem } from '../../parts/FormProblem.tsx'
import styles from './operator.module.css'

/**
 * Asks for the reason of a decision about a hoster, then sends it.
 *
 * @param props.children what the decision does
 * @param props.action the button
 * @param props.send returns the request for a reason
 * @param props.reader who reads the reason
 */
export function ReasonDialog({
  title,
  action,
  isDanger = false,
  reader = 'The hoster reads it, and the audit log keeps it.',
  maxLength = 200,
  send,
  done,
  onClose,
  children,
}: {
  title: string
  action: string
  isDanger?: boolean
  reader?: string
  maxLength?: number
  send: (reason: string) => { method: string; path: string; body: unknown }
  done: string
  onClose: () => void
  children: ReactNode
}) {
  const [reason, setReason] = useState('')
  const decide = useWrite(() => send(reason), {
    areas: ['supply', 'payouts', 'overview', 'hoster', 'hosters', 'earnings', 'log', 'operator-people'],
    done,
    onDone: onClose,
    showsError: true,
  })
  return (
    <Modal opened onClose={onClose} title={title}>
      <form
        className={styles.form}
        onSubmit={event => {
          event.preventDefault()
          decide.mutate()
        }}
      >
        <p>{children}</p>
        <TextInput
          label="Reason"
          description={reader}
          required
          maxLength={maxLength}
          value={reason}
          onChange={event => setReason(event.currentTarget.value)}
          data-autofocus
        />
        <FormProblem error={decide.error} />
        <div className={styles.buttons}>
          <Button type="submit" variant={isDanger ? 'danger' : 'filled'} loading={decide.isPending}>
            {action}
          </Button>
          <Button variant="default" onClick={onClose}>
            Cancel
          </Button>
        </div>
      </form>
    </Modal>
  )
}
