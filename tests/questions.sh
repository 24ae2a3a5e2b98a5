#!/bin/sh
# The 32 questions of docs/questions.md, asked of the models of tests/questions, which are no examples. Each model has a
# table NAME.txt beside it:
#
#   # 7 what is asked            the number of the question in docs/questions.md
#   $ meshc explain NAME.mesh    run; the lines below stand in its output in this order, `...` for any text
#   {expression}                 in such a line: integer arithmetic over the dims and axes of the model, so that a figure
#                                is that of a formula and not one that was printed before
#   @ used_layout                the layout that `plan` recommends costs what `check` says of it
#   @ ways_out                   so do the layouts and the budget that the error of too much memory names
#
# A question that does not fit a model is asked in its nearest form. Every table has all 32.
# Ends in `N passed, N failed, N skipped`.
. "$(dirname "$0")/common.sh"
questions=32

# sizes FILE: the dims and axes of a model as assignments of the shell, in order
sizes() { sed -n -e 's/ *#.*//' -e 's/^\(dim\|mesh\) //p' "$1" | tr ',' '\n' | sed -e 's/ //g' -e 's/=\(.*\)/=$((\1))/'; }

# filled LINE: the line with its formulas computed
filled() (
  eval "$assign"
  rest=$1 text=''
  while :; do
    case $rest in
    *'{'*'}'*) ;;
    *) break ;;
    esac
    head=${rest%%'{'*} rest=${rest#*'{'}
    text=$text$head$((${rest%%'}'*}))
    rest=${rest#*'}'}
  done
  printf '%s\n' "$text$rest"
)

# Runs the command unless that has been done. Its output is in $shown.
ask() {
  shown=$tmp/$model.$(printf '%s' "$1" | cksum | tr ' ' .)
  [ -e "$shown" ] || (cd "$here" && eval "\"\$meshc\" ${1#meshc }" >"$shown" 2>&1)
}

used_layout() {
  use=$(sed -n 's/^use *\(--mesh .*\)  *(predicted \([^,]*\), \([^ ]* [^ ]*\) a processor)$/\1|\2|\3/p' "$shown")
  time=$(echo "$use" | cut -d'|' -f2) peak=$(echo "$use" | cut -d'|' -f3)
  eval "costs \"$time\" \"$peak\" ${use%%|*}"
}

# costs TIME PEAK OPTION...: whether `check` with the options predicts this time and this peak, or says in its error that
# so much is needed, and the time with as much
costs() {
  time=$1 peak=$2
  shift 2
  (cd "$here" && "$meshc" check "$model.mesh" "$@") >"$tmp/used" 2>&1
  { grep -q "^predicted *$time:" "$tmp/used" && grep -q "peak $peak a processor" "$tmp/used"; } ||
    { grep -q "needs $peak a processor" "$tmp/used" && grep -q "suffices: step $time " "$tmp/used"; }
}

ways_out() {
  given=${command##*--memory }
  given=${given%% *} ways=0 wrong=0
  sed -n -e 's/^meshc: note: --layout "\(.*\)" [a-z ]*: peak \([^ ]* [^ ,]*\)\(.*\), step \([^ ]* [^ ]*\).*/--layout \1|\2|\3|\4/p' \
    -e 's/^meshc: note: --set \([^ ]*\) [a-z ]*: peak \([^ ]* [^ ,]*\)\(.*\), step \([^ ]* [^ ]*\).*/--set \1|\2|\3|\4/p' \
    -e 's/^hint: --memory \([0-9]*\) suffices: step \([^ ]* [^ ;]*\).*/|\1||\2/p' "$shown" >"$tmp/ways"
  while IFS='|' read -r option peak again time; do
    ways=$((ways + 1))
    # shellcheck disable=SC2086
    case $option$again in
    '') costs "$time" '[^ ]* [^ ]*' --memory "$peak" ;;
    *rematerialised) costs "$time" "$peak" $option --memory "$given" ;;
    *) costs "$time" "$peak" $option || costs "$time" "$peak" $option --memory "$given" ;;
    esac || wrong=$((wrong + 1))
  done <"$tmp/ways"
  [ $ways -gt 0 ] && [ $wrong = 0 ]
}

# Fails the question at hand, once, with the line that is missing.
missing() { [ -n "$lacks" ] || lacks=$1; }

# Compares the lines of the last command with its output.
answered() {
  [ -n "$command" ] || return 0
  ask "$command"
  left=$(in_order "$tmp/want" "$shown")
  [ -z "$left" ] || missing "$command does not print: $left"
  command='' && : >"$tmp/want"
}

# Ends the question at hand.
question_end() {
  answered
  [ -n "$number" ] || return 0
  if [ -n "$lacks" ]; then fail "$model, question $number: $lacks"; else pass; fi
  asked=$asked" $number" number='' lacks=''
}

table() { # FILE
  : >"$tmp/want"
  while IFS= read -r line; do
    case $line in
    '# '*) question_end && number=${line#'# '} && number=${number%% *} ;;
    '$ '*) answered && command=${line#'$ '} ;;
    '@ '*)
      ask "$command" # which may end with an error
      ${line#'@ '} || missing "$command: ${line#'@ '} is not so"
      ;;
    *) filled "$line" >>"$tmp/want" ;;
    esac
  done <"$1"
  question_end
}

here=$root/tests/questions
for file in tests/questions/*.txt; do
  model=$(basename "$file" .txt) asked='' number='' lacks='' command=''
  assign=$(sizes "tests/questions/$model.mesh")
  table "$file"
  holds "the questions of $model" "$asked" " $(seq -s ' ' $questions)"
done
finish
