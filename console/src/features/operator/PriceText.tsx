import { t } from '@lingui/core/macro'
import { exactUsd } from '../../format/usd-text.ts'
import styles from './operator.module.css'

/**
 * Input and output price in USD per million tokens. Says when other kinds of tokens, prompt lengths or hours have prices of
 * their own.
 */
export function PriceText({
  price: { input_usd_per_million: input, output_usd_per_million: output, has_more_prices: hasMore = false },
}: {
  price: { input_usd_per_million: number; output_usd_per_million: number; has_more_prices?: boolean }
}) {
  return (
    <span className={styles.price}>
      {t`${exactUsd(input)} in / ${exactUsd(output)} out`}
      {hasMore && (
        <>
          <br />
          <abbr
            className={styles.hint}
            title={t`Some kinds of tokens, prompt lengths or hours have prices of their own.`}
          >
            {t`and other prices`}
          </abbr>
        </>
      )}
    </span>
  )
}
