// The cases of suite_search_cases, see plan_cases.h. Layouts by hand that name no mesh are for the
// mesh of their case.
#include "tests/suite/common/plan_cases.h"

#include "ir/base/base.h"

#define GPT "examples/gpt.mesh --set t=1024 --set vocab=50304 --set train.precision=bf16"
#define LLAMA                                                                                      \
  "examples/llama.mesh --set queries=1 --set half=64 --set k=128 --set vocab=32000 --set "         \
  "train.precision=bf16"
#define LLAMA_7B LLAMA " --set groups=32 --set ff=11008 --set depth=32"
#define LLAMA_70B LLAMA " --set groups=8 --set queries=8 --set ff=28672 --set depth=80 --set t=4096"
#define MOE                                                                                        \
  "examples/moe.mesh --set vocab=32000 --set d=2048 --set f=8192 --set depth=12 --set "            \
  "train.precision=bf16"

// Layouts of a transformer whose heads are split by the dim H, on the mesh hosts x gpus.
#define HOSTS_OF_EIGHT(H)                                                                          \
  {                                                                                                \
    {"ZeRO-1", "b=hosts+gpus,optimizer/all=hosts+gpus", NULL, 0},                                  \
        {"ZeRO-3 (FSDP)", "b=hosts+gpus,parameters/all=hosts+gpus,gradients/all=hosts+gpus", NULL, \
         0},                                                                                       \
        {"ZeRO-3 within a host (HSDP)", "b=hosts+gpus,parameters/all=gpus,gradients/all=gpus",     \
         NULL, 0},                                                                                 \
        {"HSDP, optimizer over all",                                                               \
         "b=hosts+gpus,parameters/all=gpus,gradients/all=hosts+gpus,optimizer/all=hosts+gpus",     \
         NULL, 0},                                                                                 \
        {"tensors in a host, data over hosts", "b=hosts," H "=gpus,ff=gpus,vocab=gpus", NULL, 0},  \
        {"the same, sequence parallel", "b=hosts," H "=gpus,ff=gpus,vocab=gpus,soft/t=gpus", NULL, \
         0},                                                                                       \
        {"the same, ZeRO-1 over hosts",                                                            \
         "b=hosts," H "=gpus,ff=gpus,vocab=gpus,soft/t=gpus,optimizer/all=hosts", NULL, 0},        \
        {"the same, ZeRO-2 over hosts",                                                            \
         "b=hosts," H "=gpus,ff=gpus,vocab=gpus,soft/t=gpus,gradients/all=hosts", NULL, 0},        \
        {"the same, ZeRO-3 over hosts",                                                            \
         "b=hosts," H "=gpus,ff=gpus,vocab=gpus,soft/t=gpus,parameters/all=hosts,"                 \
         "gradients/all=hosts",                                                                    \
         NULL, 0},                                                                                 \
        {"tensors in a host, ZeRO-3 over all",                                                     \
         "b=hosts," H "=gpus,ff=gpus,vocab=gpus,soft/t=gpus,parameters/all=hosts+gpus,"            \
         "gradients/all=hosts+gpus",                                                               \
         NULL, 0},                                                                                 \
    {                                                                                              \
      NULL, NULL, NULL, 0                                                                          \
    }                                                                                              \
  }

// Layouts of a transformer on eight processors. A mesh of two axes splits the heads over `cols`.
#define EIGHT(H, MESH)                                                                             \
  {                                                                                                \
    {"data parallel", "b=rows", NULL, 0}, {"ZeRO-1", "b=rows,optimizer/all=rows", NULL, 0},        \
        {"ZeRO-2", "b=rows,gradients/all=rows", NULL, 0},                                          \
        {"ZeRO-3 (FSDP)", "b=rows,parameters/all=rows,gradients/all=rows", NULL, 0},               \
        {"tensor parallel", H "=rows,ff=rows,vocab=rows", NULL, 0},                                \
        {"tensor and sequence parallel", H "=rows,ff=rows,vocab=rows,soft/t=rows", NULL, 0},       \
        {"data and tensors", "b=rows," H "=cols,ff=cols,vocab=cols", MESH, 0},                     \
        {"data, tensors, sequence", "b=rows," H "=cols,ff=cols,vocab=cols,soft/t=cols", MESH, 0},  \
        {"the same, ZeRO-1 over data",                                                             \
         "b=rows," H "=cols,ff=cols,vocab=cols,soft/t=cols,optimizer/all=rows", MESH, 0},          \
        {"the same, ZeRO-3 over data",                                                             \
         "b=rows," H                                                                               \
         "=cols,ff=cols,vocab=cols,soft/t=cols,parameters/all=rows,gradients/all=rows",            \
         MESH, 0},                                                                                 \
    {                                                                                              \
      NULL, NULL, NULL, 0                                                                          \
    }                                                                                              \
  }

// Layouts of Llama 7B on eight processors for a batch that is large for their memory: n
// micro-batches, those with more of them 2n.
#define EIGHT_DIVIDED(N)                                                                           \
  {                                                                                                \
    {"data parallel", "b=rows", NULL, N}, {"ZeRO-1", "b=rows,optimizer/all=rows", NULL, N},        \
        {"ZeRO-2", "b=rows,gradients/all=rows", NULL, N},                                          \
        {"ZeRO-3, the whole batch", "b=rows,parameters/all=rows,gradients/all=rows", NULL, 0},     \
        {"ZeRO-3 (FSDP)", "b=rows,parameters/all=rows,gradients/all=rows", NULL, N},               \
        {"ZeRO-3, more", "b=rows,parameters/all=rows,gradients/all=rows", NULL, 2 * (N)},          \
        {"ZeRO-3, whole sums of gradients", "b=rows,parameters/all=rows", NULL, N},                \
        {"tensor and sequence parallel", "groups=rows,ff=rows,vocab=rows,soft/t=rows", NULL, N},   \
        {"data, tensors, sequence", "b=rows,groups=cols,ff=cols,vocab=cols,soft/t=cols",           \
         "rows=4,cols=2", N},                                                                      \
        {"the same, ZeRO-3 over data",                                                             \
         "b=rows,groups=cols,ff=cols,vocab=cols,soft/t=cols,parameters/all=rows,"                  \
         "gradients/all=rows",                                                                     \
         "rows=4,cols=2", N},                                                                      \
    {                                                                                              \
      NULL, NULL, NULL, 0                                                                          \
    }                                                                                              \
  }

// Layouts of Llama 70B on hosts of eight processors, with micro-batches.
#define HOSTS_DIVIDED(N)                                                                           \
  {                                                                                                \
    {"ZeRO-2", "b=hosts+gpus,gradients/all=hosts+gpus", NULL, N},                                  \
        {"ZeRO-3, the whole batch",                                                                \
         "b=hosts+gpus,parameters/all=hosts+gpus,gradients/all=hosts+gpus", NULL, 0},              \
        {"ZeRO-3, fewer", "b=hosts+gpus,parameters/all=hosts+gpus,gradients/all=hosts+gpus", NULL, \
         (N) / 2},                                                                                 \
        {"ZeRO-3 (FSDP)", "b=hosts+gpus,parameters/all=hosts+gpus,gradients/all=hosts+gpus", NULL, \
         N},                                                                                       \
        {"ZeRO-3, whole sums of gradients", "b=hosts+gpus,parameters/all=hosts+gpus", NULL, N},    \
        {"ZeRO-3 within a host (HSDP)", "b=hosts+gpus,parameters/all=gpus,gradients/all=gpus",     \
         NULL, N},                                                                                 \
        {"tensors in a host, sequence, ZeRO-2 over hosts",                                         \
         "b=hosts,groups=gpus,ff=gpus,vocab=gpus,soft/t=gpus,gradients/all=hosts", NULL, N},       \
        {"the same, ZeRO-3 over hosts",                                                            \
         "b=hosts,groups=gpus,ff=gpus,vocab=gpus,soft/t=gpus,parameters/all=hosts,"                \
         "gradients/all=hosts",                                                                    \
         NULL, N},                                                                                 \
        {"the same, fewer micro-batches",                                                          \
         "b=hosts,groups=gpus,ff=gpus,vocab=gpus,soft/t=gpus,parameters/all=hosts,"                \
         "gradients/all=hosts",                                                                    \
         NULL, (N) / 2},                                                                           \
        {"the same, ZeRO-3 over all",                                                              \
         "b=hosts,groups=gpus,ff=gpus,vocab=gpus,soft/t=gpus,parameters/all=hosts+gpus,"           \
         "gradients/all=hosts+gpus",                                                               \
         NULL, N},                                                                                 \
    {                                                                                              \
      NULL, NULL, NULL, 0                                                                          \
    }                                                                                              \
  }

const PlanCase plan_cases[] = {
    {.name = "gpt2-124m",
     .title = "GPT-2 with 124 M parameters on 8 H100",
     .model = GPT " --set b=64 --set heads=12 --set k=64 --set depth=12",
     .where = "--processors 8 --machine h100x8",
     .mesh = "rows=8",
     .daily = true,
     .priced = 100,
     .seconds = 2,
     .whole = ",k,",
     .hand = EIGHT("heads", "rows=2,cols=4"),
     .why =
         "The model fits a GPU many times over, so only the batch is split. Each GPU updates an "
         "eighth of the parameters instead of all, which saves more than the gathers cost: NVLink "
         "hides them behind the products."},
    {.name = "gpt2-1.5b",
     .title = "GPT-2 with 1.5 B parameters on 8 H100",
     .model = GPT " --set b=32 --set heads=25 --set k=64 --set depth=48",
     .where = "--processors 8 --machine h100x8",
     .mesh = "rows=8",
     .daily = true,
     .priced = 100,
     .seconds = 2,
     .whole = ",k,",
     .hand = EIGHT("heads", "rows=4,cols=2"),
     .why =
         "The states take 16 bytes a parameter, 25 GB, and fit; but an update of all of them on "
         "every GPU reads and writes them from memory. ZeRO-3 updates an eighth. 25 heads cannot "
         "be divided evenly, which rules tensors out."},
    {.name = "llama-7b-8",
     .title = "Llama with 7 B parameters on 8 H100",
     .model = LLAMA_7B " --set t=2048 --set b=32",
     .where = "--processors 8 --machine h100x8",
     .mesh = "rows=8",
     .daily = true,
     .priced = 100,
     .seconds = 2,
     .whole = ",half,k,",
     .hand = EIGHT("groups", "rows=4,cols=2"),
     .why =
         "Parameters, gradients and states take 108 GB and must be split. ZeRO-3 gathers 13 GB of "
         "bf16 parameters twice a step, in the shadow of products; tensor parallel sends the "
         "activations of 32 layers four times and waits for them."},
    {.name = "llama-7b-8-b64",
     .title = "Llama with 7 B parameters and 64 sequences on 8 H100",
     .model = LLAMA_7B " --set t=2048 --set b=64",
     .where = "--processors 8 --machine h100x8",
     .mesh = "rows=8",
     .daily = true,
     .priced = 100,
     .seconds = 2,
     .whole = ",half,k,",
     .hand = EIGHT_DIVIDED(2),
     .why = "With pointwise work recomputed, 64 sequences fit as they are: that costs less than "
            "a second pass over all parameters."},
    {.name = "llama-7b-8-b128",
     .title = "Llama with 7 B parameters and 128 sequences on 8 H100",
     .model = LLAMA_7B " --set t=2048 --set b=128",
     .where = "--processors 8 --machine h100x8",
     .mesh = "rows=8",
     .priced = 100,
     .seconds = 2,
     .whole = ",half,k,",
     .hand = EIGHT_DIVIDED(4),
     .why = "16 sequences a GPU do not fit without recomputation of two thirds of the forward "
            "pass. In micro-batches of four a step is four times that of 32 sequences: gathers and "
            "reduce-scatters of each hide behind products, and shards of the sums take 3 GiB where "
            "whole sums take 25."},
    {.name = "llama-7b-8-b256",
     .title = "Llama with 7 B parameters and 256 sequences on 8 H100",
     .model = LLAMA_7B " --set t=2048 --set b=256",
     .where = "--processors 8 --machine h100x8",
     .mesh = "rows=8",
     .priced = 100,
     .seconds = 2,
     .whole = ",half,k,",
     .hand = EIGHT_DIVIDED(8),
     .why = "As with 128 sequences: the step and its micro-batches double, the memory stays."},
    {.name = "llama-7b-8-b512",
     .title = "Llama with 7 B parameters and 512 sequences on 8 H100",
     .model = LLAMA_7B " --set t=2048 --set b=512",
     .where = "--processors 8 --machine h100x8",
     .mesh = "rows=8",
     .priced = 100,
     .seconds = 2,
     .whole = ",half,k,",
     .hand = EIGHT_DIVIDED(16),
     .why = "Four sequences a GPU at a time, as with 128 and 256."},
    {.name = "llama-7b-64",
     .title = "Llama with 7 B parameters on 64 H100",
     .model = LLAMA_7B " --set t=2048 --set b=256",
     .where = "--mesh hosts=8,gpus=8 --machine h100x512",
     .mesh = "hosts=8,gpus=8",
     .daily = true,
     .priced = 150,
     .seconds = 5,
     .whole = ",half,k,",
     .hand = HOSTS_OF_EIGHT("groups"),
     .why =
         "Four sequences a GPU: as on one host, but what is gathered layer by layer stays within a "
         "host, where links are seven times as fast, and gradients alone cross hosts."},
    {.name = "llama-7b-512",
     .title = "Llama with 7 B parameters on 512 H100",
     .model = LLAMA_7B " --set t=2048 --set b=512",
     .where = "--mesh hosts=64,gpus=8 --machine h100x512",
     .mesh = "hosts=64,gpus=8",
     .daily = true,
     .priced = 200,
     .seconds = 5,
     .whole = ",half,k,",
     .hand = HOSTS_OF_EIGHT("groups"),
     .why = "One sequence a GPU: products of 0.1 s must hide the gradients between hosts, so every "
            "byte over InfiniBand counts. Parameters are gathered within a host."},
    {.name = "llama-70b-64",
     .title = "Llama with 70 B parameters on 64 H100",
     .model = LLAMA_70B " --set b=64",
     .where = "--mesh hosts=8,gpus=8 --machine h100x512",
     .mesh = "hosts=8,gpus=8",
     .priced = 150,
     .seconds = 20,
     .whole = ",half,k,",
     .hand = HOSTS_OF_EIGHT("groups"),
     .why = "1.1 TB of states leave 17 GB on each of 64 GPUs only if they are split over all of "
            "them."},
    {.name = "llama-70b-64-b256",
     .title = "Llama with 70 B parameters and 256 sequences on 64 H100",
     .model = LLAMA_70B " --set b=256",
     .where = "--mesh hosts=8,gpus=8 --machine h100x512",
     .mesh = "hosts=8,gpus=8",
     .priced = 150,
     .seconds = 20,
     .whole = ",half,k,",
     .hand = HOSTS_DIVIDED(4),
     .why = "Four micro-batches, of one sequence a GPU each, need hardly any recomputation, but "
            "each gathers 140 GB of parameters twice, most of it over InfiniBand, and sends its "
            "gradients: whole sums of these, 261 GiB, fit nowhere. Two micro-batches send half as "
            "much, which is worth three quarters of a second forward pass. The whole batch does "
            "not fit at all."},
    {.name = "llama-70b-512",
     .title = "Llama with 70 B parameters on 512 H100",
     .model = LLAMA_70B " --set b=512",
     .where = "--mesh hosts=64,gpus=8 --machine h100x512",
     .mesh = "hosts=64,gpus=8",
     .priced = 200,
     .seconds = 20,
     .whole = ",half,k,",
     .hand = HOSTS_OF_EIGHT("groups"),
     .why =
         "As on 64 GPUs: heads, hidden units and vocabulary within a host, parameters over hosts. "
         "Transfers take about as long as with parameters over all GPUs, but what a GPU gathers of "
         "a layer is an eighth, so that less has to be recomputed for the memory."},
    {.name = "gpt3-175b",
     .title = "GPT-3 with 175 B parameters on 1,024 A100",
     .model = GPT " --set t=2048 --set b=1536 --set heads=96 --set k=128 --set depth=96",
     .where = "--mesh hosts=128,gpus=8 --machine a100x1024",
     .mesh = "hosts=128,gpus=8",
     .priced = 200,
     .seconds = 20,
     .whole = ",k,",
     .hand = HOSTS_OF_EIGHT("heads"),
     .why = "Published for 1,024 A100 (Narayanan et al., 2021): tensors over the 8 GPUs of a host, "
            "data over hosts, and pipeline stages, which meshc does not have; ZeRO takes their "
            "place. 1,536 sequences do not divide by 1,024 GPUs, but by 128 hosts."},
    {.name = "moe-8",
     .title = "A mixture of 8 experts on 8 H100",
     .model = MOE " --set g=64 --set n=1024 --set e=8 --set cap=160",
     .where = "--processors 8 --machine h100x8",
     .mesh = "rows=8",
     .daily = true,
     .priced = 150,
     .seconds = 2,
     .hand = {{"data parallel", "g=rows", NULL, 0},
              {"ZeRO-1", "g=rows,optimizer/all=rows", NULL, 0},
              {"ZeRO-3 (FSDP)", "g=rows,parameters/all=rows,gradients/all=rows", NULL, 0},
              {"expert parallel", "g=rows,own=rows", NULL, 0},
              {"expert parallel, ZeRO-1", "g=rows,own=rows,optimizer/all=rows", NULL, 0},
              {"expert parallel, ZeRO-3", "g=rows,own=rows,parameters/all=rows,gradients/all=rows",
               NULL, 0},
              {"tensors of experts", "f=rows,vocab=rows", NULL, 0},
              {"experts and tensors", "g=rows,own=rows,f=cols", "rows=4,cols=2", 0},
              {"experts and vocabulary", "g=rows,own=rows,vocab=cols,f=cols", "rows=4,cols=2", 0},
              {"data, experts on one axis", "g=rows+cols,own=cols,optimizer/all=rows+cols",
               "rows=4,cols=2", 0},
              {0}},
     .why = "Each GPU has one expert, and tokens travel to it: two all-to-alls a layer instead of "
            "the weights of all experts."},
    {.name = "moe-64",
     .title = "A mixture of 64 experts on 64 H100",
     .model = MOE " --set g=512 --set n=2048 --set e=64 --set cap=40",
     .where = "--mesh hosts=8,gpus=8 --machine h100x512",
     .mesh = "hosts=8,gpus=8",
     .daily = true,
     .priced = 200,
     .seconds = 5,
     .hand = {{"ZeRO-1", "g=hosts+gpus,optimizer/all=hosts+gpus", NULL, 0},
              {"ZeRO-3 (FSDP)", "g=hosts+gpus,parameters/all=hosts+gpus,gradients/all=hosts+gpus",
               NULL, 0},
              {"expert parallel", "g=hosts+gpus,own=hosts+gpus", NULL, 0},
              {"expert parallel, ZeRO-1", "g=hosts+gpus,own=hosts+gpus,optimizer/all=hosts+gpus",
               NULL, 0},
              {"expert parallel, ZeRO-3",
               "g=hosts+gpus,own=hosts+gpus,parameters/all=hosts+gpus,gradients/all=hosts+gpus",
               NULL, 0},
              {"experts in a host", "g=hosts+gpus,own=gpus", NULL, 0},
              {"experts in a host, ZeRO-1 over hosts",
               "g=hosts+gpus,own=gpus,optimizer/all=hosts+gpus", NULL, 0},
              {"experts in a host, ZeRO-3 over hosts",
               "g=hosts+gpus,own=gpus,parameters/all=hosts,gradients/all=hosts", NULL, 0},
              {"experts over hosts, tensors in a host", "g=hosts,own=hosts,f=gpus,vocab=gpus", NULL,
               0},
              {"the same, optimizer over hosts",
               "g=hosts,own=hosts,f=gpus,vocab=gpus,optimizer/all=hosts", NULL, 0},
              {0}},
     .why = "The weights of 64 experts are 26 B parameters: they stay where they are, and tokens "
            "travel."},
    {.name = "dlrm",
     .title = "DLRM with tables of 31 M rows on 8 H100",
     .model = "examples/dlrm.mesh --set b=65536 --set numbers=13 --set users=20000000 --set "
              "items=10000000 --set shops=1000000 --set d=128 --set h=512",
     .where = "--processors 8 --machine h100x8",
     .mesh = "rows=8",
     .daily = true,
     .priced = 500,
     .seconds = 2,
     .hand = {{"data parallel", "b=rows", NULL, 0},
              {"rows of tables", "users=rows,items=rows,shops=rows", NULL, 0},
              {"rows of tables, data", "b=rows,users=rows,items=rows,shops=rows", NULL, 0},
              {"columns of tables", "d=rows", NULL, 0},
              {"columns of tables, data", "b=rows,d=cols", "rows=4,cols=2", 0},
              {"data, tables over the other axis", "b=rows,users=cols,items=cols,shops=cols",
               "rows=4,cols=2", 0},
              {"ZeRO-1", "b=rows,optimizer/all=rows", NULL, 0},
              {"ZeRO-3 (FSDP)", "b=rows,parameters/all=rows,gradients/all=rows", NULL, 0},
              {"rows of tables, data, ZeRO-1",
               "b=rows,users=rows,items=rows,shops=rows,optimizer/all=rows", NULL, 0},
              {"rows of large tables, data", "b=rows,users=rows,items=rows", NULL, 0},
              {0}},
     .why =
         "Tables of 16 GB and as much of Adagrad's state are split by rows, and the rows that a "
         "batch needs are sent. `parameters/all` does that: a gather of a whole table would take "
         "longer than the step."},
    {.name = "unet-1024",
     .title = "A U-Net on 4 pictures of 1,024 x 1,024 on 8 H100",
     .model = "examples/unet.mesh --set b=4 --set y=1024 --set x=1024 --set c1=64 --set c2=128 "
              "--set c4=256",
     .where = "--processors 8 --machine h100x8",
     .mesh = "rows=8",
     .daily = true,
     .priced = 300,
     .seconds = 2,
     .hand = {{"data parallel, half of the GPUs idle", "b=rows", NULL, 0},
              {"bands of pictures", "y=rows,y2=rows,y4=rows", NULL, 0},
              {"data and bands", "b=rows,y=cols,y2=cols,y4=cols", "rows=4,cols=2", 0},
              {"data and columns", "b=rows,x=cols,x2=cols,x4=cols", "rows=4,cols=2", 0},
              {"data and tiles", "b=rows,y=cols,y2=cols,y4=cols,x=deep,x2=deep,x4=deep",
               "rows=2,cols=2,deep=2", 0},
              {"data and channels", "b=rows,c1=cols,c4=cols", "rows=4,cols=2", 0},
              {"data and channels of the middle", "b=rows,c2=cols", "rows=4,cols=2", 0},
              {"data and bands, ZeRO-1", "b=rows,y=cols,y2=cols,y4=cols,optimizer/all=rows",
               "rows=4,cols=2", 0},
              {"columns of pictures", "x=rows,x2=rows,x4=rows", NULL, 0},
              {"tiles of pictures", "y=rows,y2=rows,y4=rows,x=cols,x2=cols,x4=cols",
               "rows=4,cols=2", 0},
              {0}},
     .why = "Four pictures for eight GPUs: each picture is cut into two bands, which exchange only "
            "the rows at their border."},
    {.name = "context-128k",
     .title = "Llama with 7 B parameters and 131,072 tokens of context on 8 H100",
     .model = LLAMA_7B " --set t=131072 --set b=1",
     .where = "--processors 8 --machine h100x8",
     .mesh = "rows=8",
     .daily = true,
     .priced = 150,
     .seconds = 2,
     .whole = ",half,k,",
     .hand = {{"positions", "t=rows", NULL, 0},
              {"positions, ZeRO-1", "t=rows,optimizer/all=rows", NULL, 0},
              {"positions, ZeRO-3", "t=rows,parameters/all=rows,gradients/all=rows", NULL, 0},
              {"tensor parallel", "groups=rows,ff=rows,vocab=rows", NULL, 0},
              {"tensor and sequence parallel", "groups=rows,ff=rows,vocab=rows,soft/t=rows", NULL,
               0},
              {"the same, ZeRO-3",
               "groups=rows,ff=rows,vocab=rows,soft/t=rows,parameters/all=rows,gradients/all=rows",
               NULL, 0},
              {"positions and tensors", "t=rows,groups=cols,ff=cols,vocab=cols", "rows=4,cols=2",
               0},
              {"positions and tensors, ZeRO-3",
               "t=rows,groups=cols,ff=cols,vocab=cols,parameters/all=rows,gradients/all=rows",
               "rows=4,cols=2", 0},
              {"heads in attention, positions elsewhere",
               "groups=rows,soft/t=rows,parameters/all=rows", NULL, 0},
              {"the same, ZeRO-1", "groups=rows,soft/t=rows,optimizer/all=rows", NULL, 0},
              {0}},
     .why = "One sequence cannot be split as a batch; its positions are split instead, so that "
            "products see 16,384 tokens a GPU, and only keys and values travel."},
};
const uint32_t nplan_cases = countof(plan_cases);
