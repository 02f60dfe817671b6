import { t } from '@lingui/core/macro'
import { Button, NativeSelect, TextInput } from '@mantine/core'
import { useState } from 'react'
import type { OperatorSettings, WrittenSettings } from '#api/operator/settings.ts'
import { useWrite } from '../../api/use-write.ts'
import { readAmount } from '../../format/typed-number.ts'
import { AmountField } from '../../parts/AmountField.tsx'
import { FormDialog } from '../../parts/FormDialog.tsx'
import { Field } from '../../parts/FormFields.tsx'
import { saidText } from '../../texts/code-text.ts'
import { ReasonInput } from './ReasonInput.tsx'

interface DialogProps {
  readonly version: number
  readonly onClose: () => void
}

type Changes = Readonly<Record<string, string | null>>

function useChange({ version, onClose }: DialogProps, movesMoney: boolean) {
  return useWrite<{ changes: Changes; reason: string }, WrittenSettings>(
    ({ changes, reason }) => ({
      method: 'PATCH',
      path: movesMoney ? 'operator/settings/money' : 'operator/settings',
      body: { version, changes, reason },
    }),
    {
      areas: ['settings', 'system', 'customers', 'log'],
      done: answer => t`Version ${answer.version} of the settings is live.`,
      onDone: onClose,
      showsError: true,
    },
  )
}

/** Changes one setting, or takes its change back. */
export function SettingDialog(props: DialogProps & { readonly setting: OperatorSettings['fields'][number] }) {
  const { key, type, choices, value, fallback, origin, moves_money: movesMoney } = props.setting
  const { about, about_codes: codes } = props.setting
  const [text, setText] = useState(value ?? '')
  const [reason, setReason] = useState('')
  const change = useChange(props, movesMoney)
  const field = {
    label: key,
    description: t`${saidText(about, codes)} Default: ${fallback ?? t`none`}.`,
    value: text,
    onChange: (event: { currentTarget: { value: string } }) => setText(event.currentTarget.value),
  }
  return (
    <FormDialog
      title={t`Change ${key}`}
      action={t`Save`}
      sending={change}
      onSubmit={() => change.mutate({ changes: { [key]: text.trim() }, reason })}
      onClose={props.onClose}
    >
      <Field name={`changes.${key}`}>
        {choices === null ? (
          <TextInput required placeholder={type} {...field} />
        ) : (
          <NativeSelect data={choices} {...field} />
        )}
      </Field>
      <ReasonInput value={reason} onChange={setReason} />
      {origin === 'managed' && (
        <Button
          variant="default"
          disabled={reason.trim() === ''}
          onClick={() => change.mutate({ changes: { [key]: null }, reason })}
        >
          {fallback === null ? t`Remove` : t`Use the default`}
        </Button>
      )}
    </FormDialog>
  )
}

const limits = [
  ['requests_per_minute', t`Requests per minute`],
  ['requests_per_day', t`Requests per day`],
  ['daily_spend_cap_usd', t`Daily spend cap in USD`],
] as const

/** Adds an account tier. */
export function TierDialog(props: DialogProps) {
  const [name, setName] = useState('')
  const [values, setValues] = useState<Readonly<Record<string, string>>>({})
  const [reason, setReason] = useState('')
  const change = useChange(props, false)
  return (
    <FormDialog
      title={t`Add a tier`}
      action={t`Add`}
      sending={change}
      onSubmit={() =>
        change.mutate({
          changes: Object.fromEntries(
            limits.map(([limit]) => [`account_tiers.${name.trim()}.${limit}`, readAmount(values[limit] ?? '')]),
          ),
          reason,
        })
      }
      onClose={props.onClose}
    >
      <TextInput
        label={t`Name`}
        description={t`Lower-case letters, digits, - and _.`}
        required
        value={name}
        onChange={event => setName(event.currentTarget.value)}
      />
      {limits.map(([limit, label]) => (
        <Field key={limit} name={`changes.account_tiers.${name.trim()}.${limit}`}>
          <AmountField
            label={label}
            required
            value={values[limit] ?? ''}
            onText={text => setValues({ ...values, [limit]: text })}
          />
        </Field>
      ))}
      <ReasonInput value={reason} onChange={setReason} />
    </FormDialog>
  )
}
