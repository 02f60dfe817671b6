import { t } from '@lingui/core/macro'
import { Autocomplete } from '@mantine/core'
import { useState } from 'react'
import type { OperatorHosters } from '#api/operator/supply.ts'
import { useWrite } from '../../api/use-write.ts'
import { readAmount } from '../../format/typed-number.ts'
import { exactUsd } from '../../format/usd-text.ts'
import { AmountField } from '../../parts/AmountField.tsx'
import { FormDialog } from '../../parts/FormDialog.tsx'
import { Field } from '../../parts/FormFields.tsx'
import styles from './operator.module.css'

type Hoster = OperatorHosters['data'][number]

/**
 * Sets the price of a model of a hoster, as a new version. Amounts stay texts, so that they reach the gateway
 * unchanged.
 */
export function PriceDialog({ hoster, onClose }: { hoster: Hoster; onClose: () => void }) {
  const first = hoster.models[0]
  const [model, setModel] = useState(first?.model ?? '')
  const known = hoster.models.find(each => each.model === model)
  const [input, setInput] = useState(first === undefined ? '' : exactUsd(first.input_usd_per_million))
  const [output, setOutput] = useState(first === undefined ? '' : exactUsd(first.output_usd_per_million))
  const amount = (text: string) => readAmount(text)
  const set = useWrite(
    () => ({
      method: 'POST',
      path: `operator/hosters/${hoster.id}/prices`,
      body: {
        model: model.trim(),
        input_usd_per_million: amount(input),
        output_usd_per_million: amount(output),
        // The prices of cached tokens stay those of the version before.
        ...(known && {
          cache_read_usd_per_million: known.cache_read_usd_per_million,
          cache_write_usd_per_million: known.cache_write_usd_per_million,
        }),
      },
    }),
    { areas: ['supply'], done: t`The price of ${model} is set.`, onDone: onClose, showsError: true },
  )
  return (
    <FormDialog
      title={t`Set a price of ${hoster.name}`}
      action={t`Set the price`}
      sending={set}
      onSubmit={() => set.mutate()}
      onClose={onClose}
    >
      <Autocomplete
        label={t`Model`}
        required
        data={hoster.models.map(each => each.model)}
        value={model}
        onChange={setModel}
        data-autofocus
      />
      <Field name="input_usd_per_million">
        <AmountField
          label={t`Input, USD per million tokens`}
          description={known && t`Now ${exactUsd(known.input_usd_per_million)}`}
          required
          value={input}
          onText={setInput}
        />
      </Field>
      <Field name="output_usd_per_million">
        <AmountField
          label={t`Output, USD per million tokens`}
          description={known && t`Now ${exactUsd(known.output_usd_per_million)}`}
          required
          value={output}
          onText={setOutput}
        />
      </Field>
      <p className={styles.hint}>{t`New requests get this price. Running requests keep the one they began with.`}</p>
    </FormDialog>
  )
}
