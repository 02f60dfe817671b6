import { t } from '@lingui/core/macro'
import { Textarea, TextInput } from '@mantine/core'
import { useState } from 'react'
import type { PriceGroups } from '#api/operator/price-groups.ts'
import { useWrite } from '../../api/use-write.ts'
import { readAmount } from '../../format/typed-number.ts'
import { AmountField } from '../../parts/AmountField.tsx'
import { FormDialog } from '../../parts/FormDialog.tsx'
import { Field } from '../../parts/FormFields.tsx'
import { readRules, rulesText } from './price-rules-text.ts'
import { ReasonInput } from './ReasonInput.tsx'

type Group = PriceGroups['data'][number]

/** Adds a price group, or writes a new version of one. */
export function PriceGroupDialog({ group, onClose }: { group: Group | null; onClose: () => void }) {
  const [name, setName] = useState(group?.name ?? '')
  const [percent, setPercent] = useState(group?.percent ?? '0')
  const [text, setText] = useState(rulesText(group?.models ?? {}))
  const [reason, setReason] = useState('')
  const rules = readRules(text)
  const write = useWrite(
    () => ({
      method: group === null ? 'POST' : 'PUT',
      path: group === null ? 'operator/price-groups' : `operator/price-groups/${group.name}`,
      body: {
        ...(group === null ? { name: name.trim() } : { version: group.version }),
        ...{ percent: readAmount(percent), models: 'models' in rules ? rules.models : {}, reason },
      },
    }),
    { areas: ['price-groups'], done: t`The prices apply to new requests.`, onDone: onClose, showsError: true },
  )
  return (
    <FormDialog
      title={group === null ? t`Add a price group` : t`Prices of ${group.name}`}
      action={t`Save`}
      isDisabled={'problem' in rules}
      sending={write}
      onSubmit={() => write.mutate()}
      onClose={onClose}
    >
      {group === null && (
        <Field name="name">
          <TextInput
            label={t`Name`}
            description={t`Receipts name it. Lower-case letters, digits, - _ and .`}
            required
            value={name}
            onChange={event => setName(event.currentTarget.value)}
            data-autofocus
          />
        </Field>
      )}
      <Field name="percent">
        <AmountField
          label={t`Percent`}
          description={t`-10 is a discount, 15 a markup, 0 the list price. Hosters keep their own prices.`}
          required
          value={percent}
          onText={setPercent}
        />
      </Field>
      <Field name="models">
        <Textarea
          label={t`Models with a rule of their own`}
          description={t`One a line: gpt-6 = -25 %, or input and output in USD per million tokens: llama-4 = 0.2 / 0.6`}
          error={'problem' in rules && t`This is no rule: ${rules.problem}`}
          autosize
          minRows={3}
          maxRows={12}
          value={text}
          onChange={event => setText(event.currentTarget.value)}
        />
      </Field>
      <ReasonInput value={reason} onChange={setReason} />
    </FormDialog>
  )
}
