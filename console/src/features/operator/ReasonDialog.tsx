import { t } from '@lingui/core/macro'
import { type ReactNode, useState } from 'react'
import { useWrite } from '../../api/use-write.ts'
import { FormDialog } from '../../parts/FormDialog.tsx'
import { ReasonInput } from './ReasonInput.tsx'

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
  reader = t`The hoster reads it, and the audit log keeps it.`,
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
    areas: ['price-groups', 'supply', 'payouts', 'overview', 'hoster', 'hosters', 'earnings', 'log', 'operator-people'],
    done,
    onDone: onClose,
    showsError: true,
  })
  return (
    <FormDialog
      title={title}
      action={action}
      isDanger={isDanger}
      sending={decide}
      onSubmit={() => decide.mutate()}
      onClose={onClose}
    >
      <p>{children}</p>
      <ReasonInput value={reason} onChange={setReason} reader={reader} maxLength={maxLength} data-autofocus />
    </FormDialog>
  )
}
